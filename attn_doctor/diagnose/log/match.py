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
from attn_doctor.diagnose.log.strangers import is_about_a_stranger, is_of_a_stranger, is_of_its_driver
from attn_doctor.diagnose.log.unit import Unit
from attn_doctor.machine import faults
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.recipes.literals import required
from attn_doctor.recipes.recipe import LogPattern, Recipe

#: Its table has names of pandas, SciPy and others that are none of the attention stack.
_OF_NAMES = "name-of-another-release"


class Around(Protocol):
    """The lines around a unit."""

    def holds(self, pattern: re.Pattern[str]) -> bool:
        """True when the pattern is found there, or in the facts given with the log."""

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

    @cached_property
    def searched(self) -> re.Pattern[str]:
        """The expression to search for in a unit's text."""
        return re.compile(self.pattern.pattern, re.MULTILINE)

    @cached_property
    def _unless(self) -> re.Pattern[str] | None:
        return re.compile(self.pattern.unless, re.MULTILINE) if self.pattern.unless else None

    @cached_property
    def _nearby(self) -> re.Pattern[str] | None:
        return re.compile(self.pattern.nearby, re.MULTILINE) if self.pattern.nearby else None

    @cached_property
    def _unless_nearby(self) -> re.Pattern[str] | None:
        return re.compile(self.pattern.unless_nearby, re.MULTILINE) if self.pattern.unless_nearby else None

    def search(self, text: str) -> re.Match[str] | None:
        """Where the pattern stands in a text that does not exclude it."""
        found = self.searched.search(text)
        return None if found is None or (self._unless and self._unless.search(text)) else found

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
        searched = self._searched(unit.text)
        if not searched.may_stand:
            return []
        unbroken = _unbroken(unit)
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
        may_stand = set(self._index.standing(" ".join(text.split())))
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[text] = searched = _Searched(text, tuple(self._known[number] for number in sorted(may_stand)))
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
        self._found: dict[Known, re.Match[str] | None] = {}

    def found(self, known: Known) -> re.Match[str] | None:
        """Where the pattern stands; searched for once."""
        if known not in self._found:
            self._found[known] = known.search(self.text)
        return self._found[known]


def _known(recipe: Recipe, pattern: LogPattern) -> Known | None:
    """None for a pattern that cannot be analysed; the others are used all the same."""
    return faults.survive(f'log pattern of recipe "{recipe.id}"', lambda: Known(recipe, pattern), lambda _reason: None)


def _matched(known: Known, unit: Unit, searched: _Searched, unbroken: str | None, around: Around) -> Match | None:
    match = known.match(unit, searched.found(known), around)
    if match is None and unbroken is not None and known.searched.search(searched.text) is None:
        match = known.match(unit, known.search(unbroken), around)
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
