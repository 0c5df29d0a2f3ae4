"""Finds literal text that every match of a log pattern contains, to search large logs quickly.

Searching a log of 50 MB for hundreds of patterns takes minutes. Almost every pattern requires some literal text; one
scan for all of these texts finds the few lines that the patterns must examine.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from attn_doctor.recipes.kept import bundled_folder, file_of

if sys.version_info >= (3, 11):
    from re import _constants as codes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as codes
    import sre_parse as parser

#: What the wheel's build found of the patterns as they are, and as people paste them, which only a second look reads.
LITERALS, PASTED = "literals.json", "pasted.json"
#: Shorter text occurs everywhere.
SHORTEST = 4
#: Longer text would only make the scan larger.
_LONGEST = 48
#: Characters of a text that one program alone prints: of families whose pattern has one in the message 26 of 28 were
#: right where the words of the log were not theirs, with 14 to 19 characters 21 of 25, with fewer 20 of 43.
WORDED = 20
#: So many lists of texts are kept of an alternative: three tell a match from nearly everything else.
_MOST_SETS = 3
#: Most characters of a class, and most spellings of one text, that are written out.
_FEW = 3
_MOST_SPELLINGS = 8


@cache
def required(pattern: str) -> frozenset[str]:
    """Texts of which every match contains at least one; a blank in them stands for any white space.

    Empty when there is no such text of `SHORTEST` characters, and for patterns that ignore case. Raises re.error for an
    invalid pattern.
    """
    return frozenset(text for alternative in needed(pattern) for text in alternative[0])


def needed(pattern: str) -> list[list[list[str]]]:
    """All such texts: every match contains, for one of the alternatives, a text of each of its lists, of which the
    first says most.

    Empty and raises as above.
    """
    for file in (LITERALS, PASTED):
        made: list[list[list[str]]] | None = compiled(file, "needed").get(pattern)
        if made is not None:
            return made
    return _needed(pattern)


def compile_texts(patterns: Iterable[str], **more: dict[str, str]) -> str:
    """What `needed` says of the patterns, as JSON text for the wheel, with more tables."""
    texts = {pattern: needed(pattern) for pattern in patterns}
    return json.dumps({"needed": texts, **more}, separators=(",", ":"))


def _made(file: str) -> Path | None:
    """To analyse two thousand expressions takes longer than the rest of `explain`: the wheel's build does it."""
    return file_of(bundled_folder(), file)


@cache
def _tables(file: str) -> dict[str, dict[str, Any]]:
    made = _made(file)
    if made is None:
        return {}
    try:
        tables: dict[str, dict[str, Any]] = json.loads(made.read_bytes())
    except (OSError, ValueError):
        return {}
    return tables


def compiled(file: str, table: str) -> dict[str, Any]:
    """A table of `compile_texts` in the wheel, by pattern; empty in a checkout, where all is analysed."""
    return _tables(file).get(table, {})


@cache
def _needed(pattern: str) -> list[list[list[str]]]:
    parsed = parser.parse(pattern)
    if parsed.state.flags & re.IGNORECASE:
        return []
    whole: list[Any] = list(parsed.data)
    branches = whole[0][1][1] if len(whole) == 1 and whole[0][0] is codes.BRANCH else [parsed]
    found = [sorted(dict.fromkeys(_sets(one)), key=_worth, reverse=True)[:_MOST_SETS] for one in branches]
    return [[sorted(texts) for texts in sets] for sets in found] if all(found) else []


def _best(sequence: Any) -> frozenset[str]:
    """The set with the longest shortest member; any of the sequence's sets would be correct."""
    return max(_sets(sequence), key=_worth, default=frozenset())


def _worth(texts: frozenset[str]) -> tuple[int, int]:
    return min(min(len(text), WORDED) for text in texts), -len(texts)


def _sets(sequence: Any) -> Iterator[frozenset[str]]:
    runs = [""]
    for item in _flat(sequence):
        if isinstance(item, str):
            runs = [run + item for run in runs]
        elif isinstance(item, tuple) and len(runs) * len(item) <= _MOST_SPELLINGS:
            runs = [run + character for run in runs for character in item]
        else:
            yield from _kept(runs)
            runs = [""]
            if isinstance(item, frozenset):
                yield item
    yield from _kept(runs)


def _kept(runs: list[str]) -> Iterator[frozenset[str]]:
    """The spellings of a run, if each is long enough."""
    texts = frozenset(_cut(" ".join(run.split())) for run in runs)
    if all(len(text) >= SHORTEST for text in texts):
        yield texts


def _cut(text: str) -> str:
    """Part of a long text is as selective as the whole; cut at the end of a word."""
    if len(text) <= _LONGEST:
        return text
    return text[:_LONGEST].rsplit(" ", 1)[0] if " " in text[SHORTEST:_LONGEST] else text[:_LONGEST]


def _flat(sequence: Any) -> Iterator[str | tuple[str, ...] | frozenset[str] | None]:
    """Yields required characters, the few that may stand in one place (as [Ff]), sets of which one member is required,
    and None for a part that may be anything.
    """
    for code, argument in sequence:
        if code is codes.LITERAL:
            yield _character(argument)
        elif code is codes.IN and len(argument) <= _FEW and all(kind is codes.LITERAL for kind, _ in argument):
            yield tuple(dict.fromkeys(_character(value) for _, value in argument))
        elif code is codes.SUBPATTERN:
            _, added, taken, inner = argument
            if (added | taken) & re.IGNORECASE:
                yield None
            else:
                yield from _flat(inner)
        elif code is codes.BRANCH:
            yield _branches(argument[1])
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT) or code.name == "POSSESSIVE_REPEAT":
            least, most, inner = argument
            if least == most == 1:
                yield from _flat(inner)
            elif least > 0:
                yield " " if _is_blank(inner) else _best(inner) or None
            else:
                yield None
        elif code.name == "ATOMIC_GROUP":
            yield from _flat(argument)
        elif code is codes.AT or code in (codes.ASSERT, codes.ASSERT_NOT):
            continue  # matches no text: its neighbours are adjacent
        else:
            yield None


def _is_blank(sequence: Any) -> bool:
    r"""True for `\s` alone."""
    return list(sequence) == [(codes.IN, [(codes.CATEGORY, codes.CATEGORY_SPACE)])]


def _character(code: int) -> str:
    """White space of any kind matches: lines may be broken differently in the log."""
    character = chr(code)
    return " " if character in " \t\n" else character


def _branches(branches: Any) -> frozenset[str] | None:
    found: set[str] = set()
    for branch in branches:
        best = _best(branch)
        if not best:
            return None
        found |= best
    return frozenset(found)
