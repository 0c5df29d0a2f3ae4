"""Completes what was cut off from a message: the end of an import's, and what a compiler said before a line of code.

Websites, terminals and people cut a log after so many characters. `ImportError: cann` then says nothing, and the line
of code above it says which name of which module was asked for. gcc and nvcc end at once where a header is not there,
and nowhere else show an include with a mark below it: a log that begins there has lost their message alone. A log
that ends within a traceback has lost the exception: that is said behind its last line of code, in brackets, as is all
that was not in the log.
"""

from __future__ import annotations

from collections.abc import Sequence

from attn_doctor.diagnose.log.said_before import SAYS_IT, with_reported_exceptions
from attn_doctor.diagnose.log.unit import Line
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used

_CUT = when_used(r"\s*(?P<kind>ImportError|ModuleNotFoundError): ?(?P<rest>[A-Za-z][\w .']{0,80})$")
_SAID = {"ImportError": "cannot import name '", "ModuleNotFoundError": "No module named '"}
_FROM = when_used(r"\s*from (?P<module>[A-Za-z_][\w.]*) import \(?(?P<names>[\w, ]{1,400})")
_IMPORT = when_used(r"\s*import (?P<module>[A-Za-z_][\w.]*)")
#: Carets below a line of code; a compiler draws a margin.
_MARKS = when_used(r"[\s|]*[\^~]+\s*$")


#: `   32 | #include "cutlass/cutlass.h"`, the mark below it, and the end.
_INCLUDE = when_used(r"[\s\d|]*#\s*include\s*[<\"](?P<header>[\w./+-]{2,120})[>\"]\s*$")
_STOPPED = when_used(r"\s*compilation terminated\.")
_SAID_ABOVE = when_used(r"fatal error|No such file")

#: A frame, whole or with its end cut off, and what stands behind the last line of code of a traceback that ends in it.
_FRAME_BEGUN, _FRAME = when_used(r' {0,8}File "'), when_used(r' {0,8}File "[^"\n]{1,400}", line \d+, in ')
#: Behind a line, with what was not in the log.
_CUT_OFF = "  [cut off: {}]"
_SAID_TO_BE_CUT_OFF = when_used(r"\s*\[cut off: ?[^\]\n]*\]?")
#: What says in the rest of the log why it failed: another traceback's exception, or a copy of the message above it.
_SAYS_WHY = when_used(
    r"\b[A-Z]\w{2,60}(?:Error|Exception|Interrupt|Exit)\b ?:|^\W{0,4}(?:\w{1,40} )?(?:error|Error|ERROR)\b ?:"
)
#: How messages of loaders, shells and CUDA end; the part before the bar has to stand there, and the cut within a word:
#: "is not recognized" ends many a sentence.
_ENDS = (
    "cannot open shared |object file: No such file or directory",
    "is not recognized as an |internal or external command",
    "no kernel image is |available for execution on the device",
    "an illegal memory |access was encountered",
    "No such file or |directory",
)


def completed(lines: Sequence[Line], *, whole: bool = False) -> list[Line]:
    """The lines; the last one whole, where it breaks off within such a message, and missing headers by their names.

    `whole`: they are all of a short log. Then its last line is its end, and no end of a window: a known message that it
    begins is ended, and a traceback that stops there is said to.
    """
    made = with_reported_exceptions(_with_missing_headers(_with_a_whole_end(lines)))
    return _with_the_end_of_a_traceback(_with_a_known_end(made)) if whole else made


def without_what_was_cut_off(text: str) -> str:
    """The text as the log has it, for what is quoted from a line that was completed."""
    return _SAID_TO_BE_CUT_OFF.sub("", text)


def _with_a_known_end(lines: list[Line]) -> list[Line]:
    last = next((at for at in reversed(range(len(lines))) if lines[at].text.strip()), None)
    text = lines[last].text.rstrip() if last is not None else ""
    rest = _rest_of(text)
    if last is None or rest is None:
        return lines
    return [*lines[:last], replace(lines[last], text=text + rest + _CUT_OFF.format(rest.strip())), *lines[last + 1 :]]


def _with_the_end_of_a_traceback(lines: list[Line]) -> list[Line]:
    told = [at for at, line in enumerate(lines) if line.text.strip() and not _MARKS.match(line.text)]
    if told and _FRAME_BEGUN.match(lines[told[-1]].text):
        told.pop()
    if len(told) < 2 or not _FRAME.match(lines[told[-2]].text) or not lines[told[-1]].text.startswith("  "):
        return lines
    if any(_SAYS_WHY.search(line.text[:200]) or SAYS_IT.match(line.text) for line in lines):
        return lines
    code = lines[told[-1]]
    return [
        *lines[: told[-1]],
        replace(code, text=code.text.rstrip() + _CUT_OFF.format("the exception")),
        *lines[told[-1] + 1 :],
    ]


def _with_missing_headers(lines: list[Line]) -> list[Line]:
    made = list(lines)
    for at in range(len(lines) - 2):
        found = _INCLUDE.match(lines[at].text) if "include" in lines[at].text else None
        if found and _MARKS.match(lines[at + 1].text) and _STOPPED.match(lines[at + 2].text):
            above = lines[at - 1].text if at else ""
            if not _SAID_ABOVE.search(above):
                said = f"fatal error: {found['header']}: No such file or directory"
                made[at] = replace(lines[at], text=lines[at].text.rstrip() + _CUT_OFF.format(said))
    return made


def _with_a_whole_end(lines: Sequence[Line]) -> list[Line]:
    told = [at for at, line in enumerate(lines) if line.text.strip() and not _MARKS.match(line.text)]
    if len(told) < 2:
        return list(lines)
    cut, code = told[-1], lines[told[-2]].text
    found = _CUT.match(lines[cut].text)
    whole = _whole(found["kind"], found["rest"], code) if found else None
    if found is None or whole is None:
        return list(lines)
    text = lines[cut].text
    made = replace(lines[cut], text=f"{text[: found.start('kind')]}{found['kind']}: {whole}")
    return [*lines[:cut], made, *lines[cut + 1 :]]


def _rest_of(text: str) -> str | None:
    """What is missing of the end of a known message, where the text breaks off within a word of it; else None."""
    for begun, _, rest in (end.partition("|") for end in _ENDS):
        for length in range(len(rest) - 1, 0, -1):
            within_a_word = rest[length - 1].isalpha() and rest[length].isalpha()
            if within_a_word and text.endswith(begun + rest[:length]):
                return rest[length:]
    return None


def _whole(kind: str, rest: str, code: str) -> str | None:
    """The message of which `rest` is the beginning, about what the line of code imports; None where it is none."""
    said = _SAID[kind]
    if not said.startswith(rest) and not rest.startswith(said):
        return None
    begun = rest[len(said) :]
    if "'" in begun:
        return None
    line = _FROM.match(code) or (_IMPORT.match(code) if kind == "ModuleNotFoundError" else None)
    if line is None:
        return None
    module = line["module"]
    if kind == "ImportError":
        names = [name.split(" as ")[0].strip() for name in line["names"].split(",")]
        name = next((name for name in names if name and name.startswith(begun)), None)
        return name and f"{said}{name}' from '{module}'"
    parts = module.split(".")
    paths = [".".join(parts[: at + 1]) for at in range(len(parts))]
    path = next((path for path in paths if path.startswith(begun)), None)
    return path and f"{said}{path}'"
