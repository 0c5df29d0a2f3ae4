"""A second opinion: what a short log is about by its words, where patterns know no more than a family of it.

A pattern knows a message by a few of its words; where it is a family's, half of the messages of the field that it meets
mean something else. A model of all words that the cases of each recipe have (recipes/words.json) is right about as
often as the patterns, and for other reasons. So where the family that the patterns lead with is far down in its list,
and the model is sure of another, that one leads, and is said to be known by its words alone. Where a recipe of one
cause matches, or where nothing does, the model has no say: there it was more often wrong than right. What it thinks of
a message that nothing knows is shown beside the answer as something to look at, never as a finding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attn_doctor.diagnose.log.match import Match
from attn_doctor.diagnose.log.scan import Scanned
from attn_doctor.diagnose.log.weigh import OF_ONE_THING, Weighed, weigh
from attn_doctor.model.findings import Severity
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.data import words
from attn_doctor.recipes.recipe import LogPattern, Recipe

#: On 232 reports of the field that neither the patterns nor the model had seen: of the families among the model's first
#: three 5 in 100 were wrong, of those behind them 40. Above this score it changed 8 first answers, of which 6 became
#: right and none wrong, and on 96 more reports, drawn afterwards, 4 and 2. From there down to -0.4 it mended one and
#: spoilt one.
_AGREED, _SURE = 3, -0.3
#: Most that are shown as near, and how near they have to be.
_MOST_NEAR, _NEAR = 3, -0.7
#: Nothing was searched for.
_NO_PATTERN = LogPattern(pattern="")


def with_second_opinion(kept: list[Weighed], logs: Sequence[Scanned], shelf: Mapping[str, Recipe]) -> list[Weighed]:
    """The same, and before it what the words are surely of, where a family leads that they are surely not of.

    `kept` are the matches that count, `logs` all that were read: a long one has no words of its own. `shelf` has the
    recipes that were asked for, by id.
    """
    if not kept or not all(log.text for log in logs):
        return kept
    leading = min(kept, key=lambda one: one.order)
    led = leading.match.recipe
    if led.family is None or not led.has_words_of_its_own:
        return kept
    ranked = words.bundled().ranked(next(log.text for log in logs if log.name == leading.log))
    if led.id in {one.id for one in ranked[:_AGREED]}:
        return kept
    for one in ranked[:_AGREED]:
        if one.score < _SURE:
            break
        told = _weighed(shelf.get(one.id), leading)
        if told is not None:
            return [told, *(each for each in kept if each.match.recipe.id != one.id)]
    return kept


def _weighed(recipe: Recipe | None, leading: Weighed) -> Weighed | None:
    """The recipe as if it had matched where the other one did; None where facts speak against it."""
    there = leading.match
    if recipe is None or not recipe.logs or (recipe.family is not None and recipe.rank >= OF_ONE_THING):
        return None
    match = Match(
        recipe=recipe, pattern=_NO_PATTERN, unit=there.unit, line=there.line, quoted=there.quoted, length=0
    )  # fmt: skip
    told = weigh(match, leading.facts, leading.log)
    return None if told is None else replace(told, severity=Severity.INFO, by_words=True)


def nearest(text: str, recipes: Sequence[Recipe]) -> tuple[Recipe, ...]:
    """The recipes whose words are nearest to those of a short log, the nearest first; none where all are far."""
    known = {recipe.id: recipe for recipe in recipes}
    near = (one for one in words.bundled().ranked(text) if one.score >= _NEAR and one.id in known)
    return tuple(known[one.id] for one in near)[:_MOST_NEAR]
