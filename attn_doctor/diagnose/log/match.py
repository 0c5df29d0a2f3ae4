"""Matches units against the [[log]] patterns of the recipes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from itertools import pairwise
from typing import Protocol

from attn_doctor.diagnose.log.calls import may_have_raised
from attn_doctor.diagnose.log.ended import without_what_was_cut_off
from attn_doctor.diagnose.log.hidden import FAMILIES, hides_a_package
from attn_doctor.diagnose.log.literal_index import LiteralIndex
from attn_doctor.diagnose.log.sought import Sought, Text
from attn_doctor.diagnose.log.strangers import is_about_a_stranger, is_of_a_stranger, is_of_its_driver
from attn_doctor.diagnose.log.unit import Unit
from attn_doctor.machine import faults
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.literals import required
from attn_doctor.recipes.recipe import LogPattern, Recipe

#: Its table has names of pandas, SciPy and others that are none of the attention stack.
_OF_NAMES = "name-of-another-release"


class Around(Protocol):
    """The lines around a unit."""

    def holds(self, sought: Sought) -> bool:
        """True when it is found there, or in the facts given with the log."""

    def text(self) -> str:
        """The text of these lines, including the unit's."""


#: Characters of a text that stands in few lines.
_TELLING = 16
_LONGEST_REASON, _MOST_REASONS = 200, 12
#: A shorter line was not broken to fit a width.
_WIDE = 60
#: Most lines into which one message is broken.
_MOST_BROKEN = 8
#: Texts of units whose search is kept: every rank writes the same traceback.
_MOST_KEPT = 256
#: Sets of patterns that are kept.
_MOST_MADE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A pattern found in a unit."""

    recipe: Recipe
    pattern: LogPattern
    unit: Unit
    line: int
    """Line of the log where it was found."""
    quoted: str
    """That line, cleaned."""
    length: int
    """Length of the match: a longer one is more specific."""
    told: tuple[tuple[str, str], ...] = ()
    """Named groups of the pattern, with their text."""
    reasons: tuple[str, ...] = ()
    """The reasons listed in the message, each with its owner."""


class Known:
    """One pattern of one recipe, compiled when it is first needed."""

    def __init__(self, recipe: Recipe, pattern: LogPattern) -> None:
        self.recipe = recipe
        self.pattern = pattern
        self.literals = required(pattern.pattern)
        self._sought = Sought(pattern.pattern)

    @cached_property
    def _unless(self) -> Sought | None:
        return Sought(self.pattern.unless) if self.pattern.unless else None

    @cached_property
    def _nearby(self) -> Sought | None:
        return Sought(self.pattern.nearby) if self.pattern.nearby else None

    @cached_property
    def _unless_nearby(self) -> Sought | None:
        return Sought(self.pattern.unless_nearby) if self.pattern.unless_nearby else None

    def may_stand(self, flat: str) -> bool:
        """False for a text, with single blanks, that lacks words which each match has."""
        return self._sought.may_stand(flat)

    def search(self, where: Text) -> tuple[re.Match[str] | None, bool]:
        """Where the pattern stands in a text in which it may stand, None where that excludes it; and whether it stands
        there at all."""
        found = self._sought.compiled.search(where.text)
        return None if found is None or (self._unless and self._unless.search(where)) else found, found is not None

    def match(self, unit: Unit, found: re.Match[str] | None, around: Around) -> Match | None:
        """The match in the unit of what was found in its text, or None; `around` searches nearby text."""
        if found is None:
            return None
        text = found.string
        if not _may_be_raised(self.pattern, [path for path, _ in unit.frames]):
            return None
        if self._nearby and not around.holds(self._nearby):
            return None
        if self._unless_nearby and around.holds(self._unless_nearby):
            return None
        found = _of_the_message(unit, found)
        row = text.count("\n", 0, found.start())
        line = unit.lines[min(row, len(unit.lines) - 1)]
        return Match(
            recipe=self.recipe,
            pattern=self.pattern,
            unit=unit,
            line=line.number,
            quoted=line.text.strip(),
            length=found.end() - found.start(),
            told=tuple((name, without_what_was_cut_off(value)) for name, value in found.groupdict().items() if value),
            reasons=self._reasons(text, around),
        )

    def _reasons(self, text: str, around: Around) -> tuple[str, ...]:
        if self.pattern.reasons is None:
            return ()
        expression = re.compile(self.pattern.reasons, re.MULTILINE)
        found: dict[str, None] = {}
        for match in expression.finditer(around.text() if self.pattern.reasons_nearby else text):
            groups = match.groupdict()
            whose = f"{groups['of']}: " if groups.get("of") else ""
            for line in filter(None, map(str.strip, groups["reason"].splitlines())):
                found[whose + line[:_LONGEST_REASON]] = None
        return tuple(found)[:_MOST_REASONS]


def _as_it_ran(unit: Unit) -> str:
    """Its text without the lines of code that a notebook shows around the one that ran: those did not happen."""
    text = unit.text
    if "> " not in text or not unit.message_at:
        return text
    lines = text.split("\n")
    above = lines[: unit.message_at]
    if not any(_RAN.match(line) for line in above):
        return text
    return "\n".join(["" if _BESIDE_IT.match(line) else line for line in above] + lines[unit.message_at :])


def _of_the_message(unit: Unit, found: re.Match[str]) -> re.Match[str]:
    """What was found in a line of code that raises, as the message below it says it, with its values."""
    text = found.string
    if not 0 < unit.message_at < len(unit.lines) or text.count("\n") != len(unit.lines) - 1:
        return found
    at = sum(len(line) + 1 for line in text.split("\n")[: unit.message_at])
    return (found.re.search(text, at) or found) if found.start() < at else found


#: A notebook's line that ran, and one of those around it.
_RAN = when_used(r"\s*-{1,4}> ?\d{1,5} ")
_BESIDE_IT = when_used(r"\s{1,8}\d{1,5} {1,200}(?:(?:if|elif|else|raise|assert)\b|[frbFRB]{0,2}[\"'])")


class Patterns:
    """Every pattern of some recipes."""

    def __init__(self, recipes: Iterable[Recipe]) -> None:
        self.recipes = tuple(recipes)
        every = (_known(recipe, pattern) for recipe in self.recipes for pattern in recipe.logs)
        self._known = tuple(one for one in every if one is not None)
        by_literal: dict[str, list[int]] = {}
        for number, known in enumerate(self._known):
            for literal in known.literals or ("",):  # without a literal it may match anywhere
                by_literal.setdefault(literal, []).append(number)
        self._index = LiteralIndex(by_literal)
        self._kept: dict[str, _Searched] = {}
        self.lenient: dict[bool, Patterns] = {}
        """The same for pasted text, of recipes and of families, once they were asked for."""

    @property
    def literals(self) -> Iterator[str]:
        """The texts that a large log is searched for.

        Of families only those that say something by themselves: `only` and `is not` stand everywhere, and a failure is
        looked at anyway for the sake of its exception.
        """
        for known in self._known:
            if known.recipe.family is None or min(map(len, known.literals), default=0) >= _TELLING:
                yield from known.literals

    def __len__(self) -> int:
        return len(self._known)

    def match(self, unit: Unit, around: Around) -> list[Match]:
        """The first match of each recipe in this unit; behind one that facts may refuse, the next one too."""
        searched = self._searched(_as_it_ran(unit))
        if not searched.may_stand:
            return []
        text = _unbroken(unit)
        unbroken = None if text is None else self._kept.get(text) or self._keep(_Searched(text, searched.may_stand))
        found: list[Match] = []
        sure = set[str]()
        for known in searched.may_stand:
            if known.recipe.id in sure or (known.pattern.kinds and unit.kind.value not in known.pattern.kinds):
                continue
            match = faults.survive(
                f'log pattern of recipe "{known.recipe.id}"',
                partial(_matched, known, unit, searched, unbroken, around),
                lambda _reason: None,
            )
            if match is None:
                continue
            found.append(match)
            if not known.pattern.only_with_facts:
                sure.add(known.recipe.id)
        if found and hides_a_package(unit):
            return [match for match in found if match.recipe.id in FAMILIES]
        if found and is_of_a_stranger(unit):
            return [match for match in found if _is_for_strangers(match.recipe, unit)]
        return found

    def _searched(self, text: str) -> _Searched:
        if (kept := self._kept.get(text)) is not None:
            return kept
        flat = " ".join(text.split())
        standing = (self._known[number] for number in sorted(set(self._index.standing(flat))))
        may_stand = tuple(known for known in standing if known.may_stand(flat))
        # Most lines have nothing, and would take the place of those that are worth it.
        return self._keep(_Searched(text, may_stand)) if may_stand else _NOTHING

    def _keep(self, searched: _Searched) -> _Searched:
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[searched.text] = searched
        return searched


def excludes(recipe: Recipe, text: str, unit: Unit, around: str) -> bool:
    """True where a pattern of the recipe stands in the text beside words that say that it means something else; or all
    that stand there are of messages which others raise than the unit's frames name, or mean something else by the text
    around them, or for want of words there that they need.
    """
    standing = [pattern for pattern in recipe.logs if re.search(pattern.pattern, text, re.MULTILINE)]
    paths = [path for path, _ in unit.frames]
    return any(
        pattern.unless is not None and re.search(pattern.unless, text, re.MULTILINE) for pattern in standing
    ) or (bool(standing) and not any(_may_be_raised(one, paths) and _may_stand(one, around) for one in standing))


def _may_stand(pattern: LogPattern, around: str) -> bool:
    if pattern.unless_nearby is not None and re.search(pattern.unless_nearby, around, re.MULTILINE):
        return False
    return pattern.nearby is None or bool(re.search(pattern.nearby, around, re.MULTILINE))


def _may_be_raised(pattern: LogPattern, paths: list[str]) -> bool:
    return not pattern.raised_by or may_have_raised(pattern.raised_by, paths)


_made: list[Patterns] = []


def patterns_of(recipes: Iterable[Recipe]) -> Patterns:
    """The patterns of these recipes; those of the last few are kept, for a process that explains many logs."""
    wanted = tuple(recipes)
    ids = [*map(id, wanted)]
    found = next((one for one in _made if [*map(id, one.recipes)] == ids), None)
    if found is None:
        found = Patterns(wanted)
        _made[:] = [found, *_made][:_MOST_MADE]
    return found


class _Searched:
    """The text of a unit, the patterns that may stand in it, and where those that were searched for stand."""

    def __init__(self, text: str, may_stand: tuple[Known, ...]) -> None:
        self.text = text
        self.may_stand = may_stand
        self._text = Text(text)
        self._found: dict[Known, tuple[re.Match[str] | None, bool]] = {}

    def found(self, known: Known) -> tuple[re.Match[str] | None, bool]:
        """What the pattern's search says; asked once."""
        if known not in self._found:
            self._found[known] = known.search(self._text)
        return self._found[known]


_NOTHING = _Searched("", ())


def _known(recipe: Recipe, pattern: LogPattern) -> Known | None:
    """None for a pattern that cannot be analysed; the others are used all the same."""
    return faults.survive(f'log pattern of recipe "{recipe.id}"', lambda: Known(recipe, pattern), lambda _reason: None)


def _matched(known: Known, unit: Unit, searched: _Searched, unbroken: _Searched | None, around: Around) -> Match | None:
    found, stands = searched.found(known)
    match = known.match(unit, found, around)
    if match is None and unbroken is not None and not stands:
        match = known.match(unit, unbroken.found(known)[0], around)
        if match is not None:
            first = unit.lines[min(unit.message_at, len(unit.lines) - 1)]
            match = replace(match, line=first.number, quoted=first.text.strip())
    return match


def _is_for_strangers(recipe: Recipe, unit: Unit) -> bool:
    """True for what says that a trouble is elsewhere, and for a recipe about such a program, or about its driver; and
    for names that its releases have, which a table knows.
    """
    return (
        recipe.id == _OF_NAMES
        or is_about_a_stranger(recipe.library)
        or is_of_its_driver(recipe.library, unit)
        or (recipe.family is not None and not recipe.family.ours)
    )


def _unbroken(unit: Unit) -> str | None:
    """The message with its lines joined, if it seems broken to fit a width, or before a name that it announces."""
    lines = unit.lines[unit.message_at : unit.message_at + _MOST_BROKEN]
    if not any(_is_broken(line.text) for line in lines[:-1]):
        return None
    text = lines[0].text
    for before, line in pairwise(lines):
        text += (" " + line.text.strip()) if _is_broken(before.text) else "\n" + line.text
    return text


def _is_broken(text: str) -> bool:
    """As wide as a box that breaks lines, or without the name that it announces."""
    return len(text) >= _WIDE or text.rstrip().endswith("undefined symbol:")
