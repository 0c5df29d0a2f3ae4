"""A second look at a short text in which no recipe knew anything: people paste messages torn from their logs.

A message then stands in a sentence or behind a logger's words, in backticks or without its quotes, and without what
tells its kind of unit. A large log is never looked at so: it is no paste, and would take twice the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from attn_doctor.diagnose.log.owners import PARTS
from attn_doctor.diagnose.log.unit import Line, UnitKind
from attn_doctor.probe.packages.known_packages import BY_NAME, distribution_of
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.modules import distribution_with
from attn_doctor.recipes.loosened import QUOTES, as_pasted
from attn_doctor.recipes.recipe import LogPattern, Recipe

#: Characters of a text that may have been pasted.
LONGEST = 48_000

#: An exception that stands behind other words of its line.
_EXCEPTION = when_used(
    r"(?<![\w.\"/])(?:[a-z_]\w*\.){0,6}[A-Z]\w*(?:Error|Exception|Mismatch|OutOfResources|Unsupported|Failed): ?(?=\S)"
)
#: The loader has a colon before the name, a person who tells of it has none.
_SYMBOL_IN_PROSE = when_used(
    r"undefined symbol (?=[`'\"]?(?:_Z|_{0,2}(?:nccl|cuda|cublas|cudnn|cusparse|nvrtc|nvJitLink)\w*[A-Z_]|aoti_torch_))"
)
#: As people type it from memory.
_MODULE_IN_PROSE = when_used(r"\b[Nn]o module (?:(?:name|called|named?:) (?=[`'\"]?[a-z_])|(?=[`'\"][a-z_]))")
#: As people tell of it; `_as_python_says` asks whether it is a package or a compiled part that is known.
_ABSENT_IN_PROSE = when_used(
    r"(?<![\w./`'\"-])[`'\"]?(?P<name>[A-Za-z][\w-]{2,40})[`'\"]? (?:package |module |library |extension )?"
    r"(?:(?:isn['’]?t|is not|wasn['’]?t|was not) (?:installed|found|there|importable)|(?:is|are) missing)\b"
    r"|\b[Cc]an(?:['’]?t|not| not) (?:find|import|load) (?:the )?(?:module |package |library )?"
    r"[`'\"]?(?P<wanted>[A-Za-z][\w-]{2,40})[`'\"]?(?![\w./])"
)
_OOM_IN_PROSE = when_used(r"\b(?:CUDA|GPU|VRAM) OOMs?\b(?: errors?)?")
_NAME_IN_PROSE = when_used(
    r"\b[Cc]an ?(?:no|')t import [`'\"](?P<name>\w+)[`'\"] from [`'\"]?(?P<module>[A-Za-z][\w.]*\w)[`'\"]?"
)
#: Names of packages that a sentence has for something else as well.
_WORDS = frozenset({"torch", "triton", "apex", "wheel", "kernels", "packaging", "ninja", "accelerate", "datasets"})
_ELLIPSIS = ".… "
_REST = when_used(r"\s{0,8}(?:…|\.{3}) ?(?=\S)")
_WRAPPING = f" \t{QUOTES}*•"


def relaxed(recipes: Iterable[Recipe], *, families: bool) -> Iterator[Recipe]:
    """The recipes, or the families, with their patterns as they have to be for pasted text: also in a plain line, with
    or without quotes and the exception's class."""
    for recipe in recipes:
        if (recipe.family is not None) is families and recipe.logs:
            yield replace(recipe, logs=tuple(map(_relaxed, recipe.logs)))


def _relaxed(pattern: LogPattern) -> LogPattern:
    kinds = (*pattern.kinds, UnitKind.LINE.value) if pattern.kinds else ()
    return replace(pattern, pattern=as_pasted(pattern.pattern), kinds=kinds)


def _joined(lines: Iterable[Line]) -> Iterator[Line]:
    """A title that a website broke, with an ellipsis at its end and one before its rest, is one line again."""
    held: Line | None = None
    for line in lines:
        if held is not None and (rest := _REST.match(line.text)):
            held = replace(held, text=f"{held.text.rstrip(_ELLIPSIS)} {line.text[rest.end() :]}")
            continue
        if held is not None:
            yield held
        held = line
    if held is not None:
        yield held


def unwrapped(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines without quotes around them, and an exception within one as a line of its own."""
    for line in _joined(lines):
        text = _SYMBOL_IN_PROSE.sub("undefined symbol: ", line.text)
        text = _MODULE_IN_PROSE.sub("No module named ", text)
        text = _ABSENT_IN_PROSE.sub(_as_python_says, text)
        text = _OOM_IN_PROSE.sub("CUDA out of memory", text)
        text = _NAME_IN_PROSE.sub(r"cannot import name '\g<name>' from '\g<module>'", text)
        starts = [found.start() for found in _EXCEPTION.finditer(text)]
        indent = text[: len(text) - len(text.lstrip())]
        cuts = [0, *(start for start in starts if text[:start].strip(_WRAPPING)), len(text)]
        for begin, end in pairwise(cuts):
            part = _stripped(text[begin:end])
            yield replace(line, text=(indent if begin == 0 else "") + part, record=line.record or begin > 0)


def _stripped(text: str) -> str:
    """Without what is around it; a quote at its end stays where it closes one within: No module named 'fla'."""
    text = text.strip().lstrip(_WRAPPING)
    while text and text[-1] in _WRAPPING and not (text[-1] in "'\"" and text.count(text[-1]) % 2 == 0):
        text = text[:-1]
    return text


def _as_python_says(found: re.Match[str]) -> str:
    """Python's own sentence where a package or a compiled part is said to be missing; any other word stays."""
    module = (found["name"] or found["wanted"]).replace("-", "_")
    known = module in PARTS or distribution_of(module) in BY_NAME or distribution_with(module)
    return f"No module named '{module}'" if known and module not in _WORDS else found[0]
