"""A second look at a short text in which no recipe knew anything: people paste messages torn from their logs.

A message then stands in a sentence or behind a logger's words, in backticks or without its quotes, and without what
tells its kind of unit. A large log is never looked at so: it is no paste, and would take twice the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from attn_doctor.diagnose.log.unit import Line, UnitKind
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.literals import required
from attn_doctor.recipes.recipe import LogPattern, Recipe

#: Characters of a text that may have been pasted.
LONGEST = 48_000

_QUOTES = "'\"`‘’“”"
#: A quote, or without one the place where a word begins or ends: `triton` is not `triton.ops`.
_QUOTE_OR_EDGE = rf"(?:[{_QUOTES}]|(?<![\w.])(?=[\w(\[-])|(?<=[\w)\]])(?!\w|\.\w))"
#: One within a word, as in `won't`.
_APOSTROPHE = "['’]?"
#: A line's beginning and end, as a message in a sentence has them.
_BEGINS = rf"(?:^|(?<=[\s:;,.=>|(\[{{{_QUOTES}]))"
_ENDS = rf"(?=$|[\s)\]}}{_QUOTES}]|[:;,.!?](?:\s|$))"
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[^)]{0,60}?[:=!>]|.", re.DOTALL)
#: An exception that stands behind other words of its line.
_EXCEPTION = re.compile(
    r"(?<![\w.\"/])(?:[a-z_]\w*\.){0,6}[A-Z]\w*(?:Error|Exception|Mismatch|OutOfResources|Unsupported|Failed): ?(?=\S)"
)
#: The exception's class, or the compiler that speaks, at the beginning of a pattern.
_CLASS = re.compile(r"^\^?(?:[A-Z]\w*(?:Error|Exception)|[\w()?:|+-]{2,40} (?:fatal|error) \??): ")
#: Characters that a message without its class has to hold.
_TELLING = 12
#: The loader has a colon before the name, a person who tells of it has none.
_SYMBOL_IN_PROSE = re.compile(r"undefined symbol (?=[`'\"]?_Z)")
#: As people type it from memory.
_MODULE_IN_PROSE = re.compile(r"\b[Nn]o module (?:name|called|named?:) (?=[`'\"]?[a-z_])")
_WRAPPING = f" \t{_QUOTES}*•"


def relaxed(recipes: Iterable[Recipe], *, families: bool) -> Iterator[Recipe]:
    """The recipes, or the families, with their patterns as they have to be for pasted text: also in a plain line, with
    or without quotes and the exception's class."""
    for recipe in recipes:
        if (recipe.family is not None) is families and recipe.logs:
            yield replace(recipe, logs=tuple(map(_relaxed, recipe.logs)))


def _relaxed(pattern: LogPattern) -> LogPattern:
    kinds = (*pattern.kinds, UnitKind.LINE.value) if pattern.kinds else ()
    return replace(pattern, pattern=loosened(_CLASS.sub(_without_class, pattern.pattern)), kinds=kinds)


def _without_class(found: re.Match[str]) -> str:
    """The class of the exception is left out where what stays says enough."""
    rest = required(found.string[found.end() :])
    telling = rest and min(map(len, rest)) >= _TELLING
    return f"(?:{found[0]})?" if telling else found[0]


def loosened(pattern: str) -> str:
    """The expression with optional quotes, and anchors that hold within a sentence.

    The quote that begins an alternative stays where its words alone say too little: a sentence with "pip install" is
    no message.
    """
    return "|".join(_loosened(pieces) for pieces in _alternatives(_PIECE.findall(pattern)))


def _alternatives(pieces: Iterable[str]) -> list[list[str]]:
    """The pieces of each alternative of the whole expression."""
    found: list[list[str]] = [[]]
    depth = 0
    for piece in pieces:
        depth += piece.startswith("(") - (piece == ")")
        if piece == "|" and not depth:
            found.append([])
        else:
            found[-1].append(piece)
    return found


def _loosened(pieces: list[str]) -> str:
    bare = [piece.removeprefix("\\") for piece in pieces]
    quotes = {at for at, piece in enumerate(bare) if len(piece) == 1 and piece in _QUOTES}
    telling = required("".join("(?:)" if at in quotes else piece for at, piece in enumerate(pieces)))
    says_enough = bool(telling) and min(map(len, telling)) >= _TELLING
    parts: list[str] = []
    for at, piece in enumerate(pieces):
        within = 0 < at < len(pieces) - 1 and bare[at] in ("'", "’")
        if piece == "^":
            parts.append(_BEGINS)
        elif piece == "$":
            parts.append(_ENDS)
        elif within and pieces[at - 1].isalpha() and pieces[at + 1].isalpha():
            parts.append(_APOSTROPHE)
        elif at in quotes and (at > 0 or says_enough or pieces[1:2] in (["?"], ["*"])):
            parts.append(_QUOTE_OR_EDGE)
        else:
            parts.append(piece)
    return "".join(parts)


def unwrapped(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines without quotes around them, and an exception within one as a line of its own."""
    for line in lines:
        text = _SYMBOL_IN_PROSE.sub("undefined symbol: ", line.text)
        text = _MODULE_IN_PROSE.sub("No module named ", text)
        starts = [found.start() for found in _EXCEPTION.finditer(text)]
        indent = text[: len(text) - len(text.lstrip())]
        cuts = [0, *(start for start in starts if text[:start].strip(_WRAPPING)), len(text)]
        for begin, end in pairwise(cuts):
            part = text[begin:end].strip(_WRAPPING)
            yield replace(line, text=(indent if begin == 0 else "") + part, record=line.record or begin > 0)
