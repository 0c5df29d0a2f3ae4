"""What text must stand in a log so that a pattern can be found in it: what a large log is looked through for.

A log of 50 MB against hundreds of patterns takes minutes. Almost every pattern holds some literal text that each of
its matches holds too; one scan for all of those tells the few lines that are worth a closer look.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

if sys.version_info >= (3, 11):
    from re import _constants as codes  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
else:
    import sre_constants as codes
    import sre_parse as parser

#: Shorter text stands everywhere.
SHORTEST = 4
#: Longer text than this only makes the scan larger.
_LONGEST = 48


def required(pattern: str) -> frozenset[str]:
    """Texts one of which stands in every match; blanks in them stand for any white space.

    Empty when there is no such text of `SHORTEST` characters, and for patterns that ignore case.
    Raises re.error for what is no pattern.
    """
    parsed = parser.parse(pattern)
    if parsed.state.flags & re.IGNORECASE:
        return frozenset()
    return _best(parsed)


def _best(sequence: Any) -> frozenset[str]:
    """The set whose shortest member is longest: each of a sequence's sets would do."""
    return max(_sets(sequence), key=_worth, default=frozenset())


def _worth(texts: frozenset[str]) -> tuple[int, int]:
    return min(min(len(text), 20) for text in texts), -len(texts)


def _sets(sequence: Any) -> Iterator[frozenset[str]]:
    run = ""
    for item in _flat(sequence):
        if isinstance(item, str):
            run += item
            continue
        yield from _kept(run)
        run = ""
        if item is not None:
            yield item
    yield from _kept(run)


def _kept(run: str) -> Iterator[frozenset[str]]:
    text = run.strip()
    if len(text) > _LONGEST:
        # A long text's middle is as telling as the whole of it, and cut where a word ends.
        text = text[:_LONGEST].rsplit(" ", 1)[0] if " " in text[SHORTEST:_LONGEST] else text[:_LONGEST]
    if len(text) >= SHORTEST:
        yield frozenset((text,))


def _flat(sequence: Any) -> Iterator[str | frozenset[str] | None]:
    """Characters that stand there, sets one of which stands there, and None for what may be anything."""
    for code, argument in sequence:
        if code is codes.LITERAL:
            character = chr(argument)
            # What the log breaks in two lines may stand in one, and the other way round.
            yield " " if character in " \t\n" else character
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
                yield _best(inner) or None
            else:
                yield None
        elif code.name == "ATOMIC_GROUP":
            yield from _flat(argument)
        elif code is codes.AT or code in (codes.ASSERT, codes.ASSERT_NOT):
            continue  # takes no text: what stands around it is one run
        else:
            yield None


def _branches(branches: Any) -> frozenset[str] | None:
    found: set[str] = set()
    for branch in branches:
        best = _best(branch)
        if not best:
            return None
        found |= best
    return frozenset(found)
