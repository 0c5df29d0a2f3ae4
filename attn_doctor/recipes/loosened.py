"""Loosens a log pattern for text that a person pasted: the message stands in a sentence, in backticks or without its
quotes and its exception's class.

Imports the standard library and `literals` alone: the wheel's build runs it, in an environment of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from attn_doctor.recipes.literals import PASTED, compile_texts, compiled, required

QUOTES = "'\"`‘’“”"
#: A quote, or without one the place where a word begins or ends: `triton` is not `triton.ops`. Where a quote stands it
#: is taken: what must not follow it is asked behind it.
_QUOTE_OR_EDGE = rf"(?:[{QUOTES}]|(?<![\w.])(?=[\w(\[-])|(?<=[\w)\]])(?![\w{QUOTES}]|\.\w))"
#: One within a word, as in `won't`.
_APOSTROPHE = "['’]?"
#: A line's beginning and end, as a message in a sentence has them.
_BEGINS = rf"(?:^|(?<=[\s:;,.=>|(\[{{{QUOTES}]))"
_ENDS = rf"(?=$|[\s)\]}}{QUOTES}]|[:;,.!?](?:\s|$|[^\x00-\x7f]))"  # no space follows a comma in Chinese
_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?[^)]{0,60}?[:=!>]|.", re.DOTALL)
#: The exception's class, or the compiler that speaks, at the beginning of a pattern.
_CLASS = re.compile(r"^\^?(?:[A-Z]\w*(?:Error|Exception)|[\w()?:|+-]{2,40} (?:fatal|error) \??): ")
#: Characters that a message without its class has to hold.
_TELLING = 12


def as_pasted(pattern: str) -> str:
    """The expression with optional quotes, an optional class of the exception, and anchors that hold in a sentence."""
    made = compiled(PASTED, "pasted").get(pattern)
    return made if isinstance(made, str) else loosened(_CLASS.sub(_without_class, pattern))


def compile_pasted(patterns: Iterable[str]) -> str:
    """What `as_pasted` says of the patterns, and `required` of that, as JSON text for the wheel."""
    pasted = {pattern: as_pasted(pattern) for pattern in patterns}
    return compile_texts(pasted.values(), pasted=pasted)


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
    quotes = {at for at, piece in enumerate(bare) if len(piece) == 1 and piece in QUOTES}
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
