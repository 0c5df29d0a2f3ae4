"""Cuts cleaned lines into units: tracebacks, C++ messages, compiler diagnostics, warnings, plain lines.

Pasted logs are often trimmed: frames without their header, the message above its frames, no indentation. Therefore the
lines themselves decide what belongs together, and a line that cannot be assigned is a unit of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attn_doctor.diagnose.log.said_before import add_with_what_was_said, under_its_title
from attn_doctor.diagnose.log.unit import Line, Unit, UnitKind
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used

_HEADER = when_used(
    r"\s*(?:\+ )?(?:Exception Group )?Traceback(?: \(most recent call last\))?:?\s*$"
    r"|.{0,200}Traceback \(most recent call last\):"
    r"|\s*(?P<class>(?:\w+\.)*[A-Z]\w*) +Traceback \(most recent call last\)\s*$"  # a notebook's names the class
)
_FRAME = when_used(
    r'\s*(?:\| )?(?:File )?"?(?P<file>[^"\n]{1,400}?)"?, line (?P<line>\d+)(?:, in |$)'  # Python's own
    r"|\s*(?:File|Cell|Input) (?P<cell>[^\s,]{1,400}?):(?P<at>\d+)(?:, in |$)"  # IPython's
    r"|\[?(?P<old>(?:[~/.]|[A-Za-z]:[/\\])\S{1,300}\.py|<ipython-input-[^>\s]{1,60}>)\]?(?:\(https?://\S{1,300}\))? in "
    r"(?=[\w<])"  # IPython's of before, and Colab's
    r"|(?P<test>[\w./<>@+-]{1,400}\.py):(?P<row>\d+):? in "  # pytest's and rich's
)
_CHAINED = when_used(
    r"\s*(?:During handling of the above exception, another exception occurred|"
    r"The above exception was the direct cause of the following exception):?\s*$"
)
_EXCEPTION = when_used(
    r"\s*(?:!+ )?(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*"
    r"(?:Error|Exception|Failed|Mismatch|Exit|Interrupt|OutOfResources|Died|Timeout|Unsupported|Abort|Refused|Warning)"
    r"|(?:[A-Za-z_]\w*\.){1,6}Error)\b"  # gradio.exceptions.Error
    r"(?P<colon>\s?(?:\([\w.]+\))?:|\s*$)"
)
#: With words behind it: no line of code reads so.
_WORDS_OF_ONE = when_used(r"\s*(?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): (?:[A-Z][a-z]+|cannot|module) [a-z]")
_ANY_EXCEPTION = when_used(r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?:: |$)")
_CARETS = when_used(r"\s*[\^~]+\s*$|\s*\.\.\.<\d+ lines>\.\.\.|\s*\[Previous line repeated")
_ARROW = when_used(r"\s*-+> ?\d+ |\s*\d+ {2,}\S|\s{4}")
#: Lines of a notebook's frame: numbered source, and how many frames were left out.
_NUMBERED = when_used(r"\s*\d+ +\S|\s*\d+$|\d+ frames$")
_OF_A_NOTEBOOK = when_used(f"{_NUMBERED.pattern}|{_EXCEPTION.pattern}")
_WARNING = when_used(
    r"(?:\S.{0,300}:\d+: )?(?:\w+\.)*\w*Warning: |(?i:warning[:!]|warn: )|\*\*\* ?WARNING"
    r"|(?:ld\.so: )?object '[^'\n]{1,300}' from LD_PRELOAD cannot be preloaded"  # the program starts without it
)
_COMPILER = when_used(
    r"\S{1,400}[:(]\d+(?:[:,]\d+)?\)?: ?(?:catastrophic |fatal |internal )?(?:error|Error)\b"
    r"|(?:nvcc|ptxas(?:-\w+)?|cicc|fatbinary|cudafe\+\+) (?:fatal|error|warning)|ptxas(?:-\w+)? |FAILED: |ninja: "
    r"|collect2: |(?:/\S{0,200}/)?ld: |LLVM ERROR|loc\(|error: |fatal error: |#error|CMake Error|clang\S{0,20}: error"
    r"|(?:gcc|g\+\+|c\+\+|cc1plus|x86_64\S{0,60}): (?:fatal )?error"
)
_MESSAGE = when_used(
    r"undefined symbol|cannot open shared object|version `GLIBC|terminate called|^\s*what\(\):|CUDA [Ee]rror|^Killed\b"
    r"|Aborted|Assertion .{0,400}failed|[Ss]egmentation fault|UNREACHABLE executed|Fatal Python error|FATAL:"
)
_GOES_ON = when_used(
    r"\s+\S|frame #\d+|Exception raised from |CUDA kernel errors might|For debugging consider|Compile with `TORCH_USE"
    r"|Device-side assert|Operator wasn|`[\w.@-]+` is not supported|\(Could this error message|Set TORCHDYNAMO"
    r"|You can suppress|Search for `|Location: \w"
)
#: Most lines of a message; a longer one is no message.
_MOST_LINES = 120
_MOST_FRAMES = 600
#: Most characters of a message: longer ones are not meant for people, and each pattern would take time.
_MOST_TEXT = 16_000


def cut(lines: Iterable[Line]) -> list[Unit]:
    """The units in these lines, cut separately for each origin, in order of their first line."""
    streams: dict[str, list[Line]] = {}
    for line in lines:
        streams.setdefault(line.origin, []).append(line)
    if len(streams) == 2 and "" in streams:
        # A single rank interleaves with no other: lines without its prefix belong between its own.
        (origin,) = (name for name in streams if name)
        merged = sorted((line for stream in streams.values() for line in stream), key=lambda line: line.number)
        streams = {origin: merged}
    units = [unit for origin, stream in streams.items() for unit in _Cutter(stream, origin).units()]
    return sorted(units, key=lambda unit: (unit.first, unit.last))


class _Cutter:
    def __init__(self, lines: Sequence[Line], origin: str) -> None:
        self._lines = lines
        self._origin = origin
        self._at = 0

    def units(self) -> list[Unit]:
        made: list[Unit] = []
        chain = 0
        linked = False
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.text:
                self._at += 1
            elif _CHAINED.match(line.text):
                linked = True
                self._at += 1
            elif _is_frame(line.text) or _HEADER.match(line.text):
                unit = self._traceback()
                chain = chain + 1 if linked else 0
                linked = False
                add_with_what_was_said(made, replace(unit, depth=chain))
            else:
                linked = False
                made.append(self._other())
        return under_its_title(made)

    def _traceback(self) -> Unit:
        taken: list[Line] = []
        frames: list[tuple[str, int]] = []
        header = _HEADER.match(self._lines[self._at].text)
        if header:
            indent = _indent(self._lines[self._at].text)
            taken.append(self._take())
        else:
            indent = None
        after_frame, deep, pasted = False, 0, False
        notebook = bool(header and header["class"])
        while self._at < len(self._lines) and len(taken) < _MOST_FRAMES:
            text = self._lines[self._at].text
            if _CHAINED.match(text) or (_HEADER.match(text) and taken):
                break
            frame = _FRAME.match(text)
            if frame:
                file = frame["file"] or frame["cell"] or frame["test"] or frame["old"]
                frames.append((file, int(frame["line"] or frame["at"] or frame["row"] or 0)))
                taken.append(self._take())
                after_frame, deep = True, _indent(text)
                notebook = notebook or bool(frame["cell"] or frame["old"])
            elif notebook and (_NUMBERED.match(text) or (not text and self._next_is(_OF_A_NOTEBOOK, 1))):
                taken.append(self._take())
            elif not text:
                if ((after_frame or notebook) and self._next_is(_FRAME, 3)) or (frames and self._ends_behind_blanks()):
                    taken.append(self._take())
                else:
                    break
            elif _CARETS.match(text) or (_ARROW.match(text) and (indent is None or _indent(text) > indent)):
                # Without a header the exception stands two columns before the frames.
                outdented = bool(frames) and _indent(text) == deep - 2
                if (outdented or not after_frame) and indent is None and _EXCEPTION.match(text):
                    break
                if frames and _FRAME.match(taken[-1].text) is None and self._is_a_pasted_message(text):
                    pasted = True
                    break
                taken.append(self._take())
                after_frame = after_frame and bool(_ARROW.match(text))
            elif _EXCEPTION.match(text):
                break
            elif after_frame and not (indent is not None and _indent(text) <= indent and _ANY_EXCEPTION.match(text)):
                taken.append(self._take())  # the source line of the frame, which lost its indentation
                after_frame = False
            else:
                break
        exception, message_at = "", len(taken)
        if self._at < len(self._lines):
            text = self._lines[self._at].text
            found = _EXCEPTION.match(text) or (indent is not None and frames and _ANY_EXCEPTION.match(text.strip()))
            if found and (pasted or indent is None or _indent(text) <= indent + 2):
                exception = found["name"]
                taken += self._message()
        if not exception and header and header["class"]:
            exception, message_at = header["class"], 0
        return Unit(
            kind=UnitKind.TRACEBACK,
            lines=tuple(taken),
            origin=self._origin,
            exception=exception,
            frames=tuple(frames),
            message_at=message_at,
        )

    def _other(self) -> Unit:
        line = self._lines[self._at]
        found = _EXCEPTION.match(line.text)
        warned = _WARNING.match(line.text)
        if line.level == "W" or warned or (found and found["name"].endswith("Warning")):
            return Unit(kind=UnitKind.WARNING, lines=tuple(self._indented(8)), origin=self._origin)
        if found and (found["colon"].strip() or not line.text[0].isspace()):
            return Unit(
                kind=UnitKind.MESSAGE, lines=tuple(self._message()), origin=self._origin, exception=found["name"]
            )
        if _COMPILER.match(line.text.lstrip()):
            return Unit(kind=UnitKind.COMPILER, lines=tuple(self._indented(40)), origin=self._origin)
        if _MESSAGE.search(line.text.lstrip()) or self._is_thrown():
            return Unit(kind=UnitKind.MESSAGE, lines=tuple(self._message()), origin=self._origin)
        return Unit(kind=UnitKind.LINE, lines=tuple(self._indented(20)), origin=self._origin)

    def _is_thrown(self) -> bool:
        """The next line says where in C++ this one was thrown."""
        following = self._lines[self._at + 1 : self._at + 2]
        return bool(following) and following[0].text.startswith("Exception raised from ")

    def _message(self) -> list[Line]:
        """The first line of a message, and its continuation lines."""
        taken = [self._take()]
        room = _MOST_TEXT
        while self._at < len(self._lines) and len(taken) < _MOST_LINES and room > 0:
            line = self._lines[self._at]
            text = line.text
            room -= len(text)
            if not text:
                if not self._goes_on_after_blank():
                    break
            elif self._begins_anew(line, taken[-1]) or (not _GOES_ON.match(text) and len(taken) > 12):
                break
            taken.append(self._take())
        while taken and not taken[-1].text:
            taken.pop()
        return taken

    @staticmethod
    def _begins_anew(line: Line, before: Line) -> bool:
        text = line.text
        if line.record or _CHAINED.match(text) or _is_frame(text) or _HEADER.match(text) or _WARNING.match(text):
            return True
        # "backend='inductor' raised:" is followed by the quoted exception.
        return _EXCEPTION.match(text) is not None and not before.text.endswith(":")

    def _goes_on_after_blank(self) -> bool:
        following = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else None
        return (
            following is not None
            and not following.record
            and bool(_GOES_ON.match(following.text))
            and not _is_frame(following.text)
        )

    def _is_a_pasted_message(self, text: str) -> bool:
        """The exception that ends the frames, pasted as deep as the line of code above it."""
        return bool(_WORDS_OF_ONE.match(text)) and not self._next_is(_FRAME, 1)

    def _indented(self, most: int) -> list[Line]:
        """A line and the following lines that are indented deeper."""
        first = self._take()
        taken = [first]
        own = _indent(first.text)
        while self._at < len(self._lines) and len(taken) < most:
            line = self._lines[self._at]
            if (
                not line.text
                or line.record
                or _indent(line.text) <= own
                or _is_frame(line.text)
                or _HEADER.match(line.text)
            ):
                break
            bare = line.text.lstrip()
            if _EXCEPTION.match(bare) or _COMPILER.match(bare) or _WARNING.match(bare):
                break
            taken.append(self._take())
        return taken

    def _ends_behind_blanks(self) -> bool:
        """True where, behind one or two empty lines, an exception with a message stands that is no warning: a prefix or
        a paste has put them in between. A name without a message may be any word.
        """
        following = next((line for line in self._lines[self._at + 1 : self._at + 3] if line.text), None)
        if following is None or following.record or (found := _EXCEPTION.match(following.text)) is None:
            return False
        return bool(found["colon"].strip()) and not found["name"].endswith("Warning")

    def _next_is(self, kind: re.Pattern[str], within: int) -> bool:
        ahead = self._lines[self._at + 1 : self._at + 1 + within]
        return any(kind.match(line.text) for line in ahead if line.text)

    def _take(self) -> Line:
        line = self._lines[self._at]
        self._at += 1
        return line


def _is_frame(text: str) -> bool:
    return ("line " in text or ".py:" in text or " in " in text) and _FRAME.match(text) is not None


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
