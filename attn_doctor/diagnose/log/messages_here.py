"""Matches messages of compilers, imports and traced runs in this examination against the recipes' log patterns.

`explain` finds such messages in a log. The same message as a fact of this examination leads to the same recipe, so that
`check`, `trace`, `explain` and `fix` report one cause. Only proven causes count here; for possible ones the recipes'
conditions on facts decide. A message of which no cause is proven has its family, as in `explain`.
"""

from __future__ import annotations

from collections.abc import Iterable

from attn_doctor.diagnose.binding import Binding, bind
from attn_doctor.diagnose.finding import finding_of
from attn_doctor.diagnose.log.choose import chosen
from attn_doctor.diagnose.log.join import join
from attn_doctor.diagnose.log.match import Match, patterns_of
from attn_doctor.diagnose.log.message_facts import of_match
from attn_doctor.diagnose.log.places import place_in
from attn_doctor.diagnose.log.plain_texts import title_of
from attn_doctor.diagnose.log.scan import Scanner
from attn_doctor.diagnose.log.weigh import Weighed, weigh
from attn_doctor.diagnose.log.word_facts import words_among
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin
from attn_doctor.model.findings import Finding, Location
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.recipes.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The cause that a message proves, or its family."""

    words: Fact
    recipe: Recipe
    binding: Binding
    finding: Finding

    @property
    def subject(self) -> str:
        """The source of the message, as in findings: `import fla`."""
        name = self.words.name
        return f"{name.kind} {name.subject}" if name.subject else name.kind


def messages(facts: FactSet, recipes: Iterable[Recipe]) -> tuple[Message, ...]:
    """The causes that messages among the facts prove, or their families, in the order of the facts."""
    scanner = _scanner(recipes)
    found = []
    for fact, text in words_among(facts):
        scanned = scanner.scan(str(fact.name), [text + "\n"])
        weighed = [one for match in scanned.matches if (one := _weighed(match, facts, scanned.name)) is not None]
        weighed = [one for one in weighed if _counts(one, facts)]
        first: dict[str, Weighed] = {}
        for one in sorted(chosen(weighed), key=lambda one: one.order):
            first.setdefault(one.match.recipe.id, one)
        found += [_heard(one, fact, facts) for one in first.values()]
    return tuple(found)


_latest: tuple[Iterable[Recipe], Scanner] | None = None


def _scanner(recipes: Iterable[Recipe]) -> Scanner:
    """The scanner for these recipes; making one takes a tenth of a second, and `fix` judges three times."""
    global _latest
    if _latest is None or _latest[0] is not recipes:
        _latest = (recipes, Scanner(patterns_of(recipes)))
    return _latest[1]


def _weighed(match: Match, facts: FactSet, name: str) -> Weighed | None:
    """A family is known by what its message is about; for a cause the facts of this node suffice."""
    return weigh(match, join(facts, of_match(match, name, facts)) if match.recipe.family else facts, name)


def _counts(one: Weighed, facts: FactSet) -> bool:
    recipe = one.match.recipe
    return recipe.family is not None or (one.proven and not (recipe.without_gpu and _no_gpu(facts)))


def _no_gpu(facts: FactSet) -> bool:
    """True when no real GPU is present: an assumed one gave the messages' programs no driver."""
    listed = facts.fact("listed.gpu")
    return listed.origin is Origin.ASSUMED or listed.state in (Known(0),)


def _heard(one: Weighed, words: Fact, facts: FactSet) -> Message:
    recipe, binding = one.match.recipe, one.binding
    if recipe.for_each == words.name.kind:
        binding = bind(facts, recipe.for_each, words.name.subject)
    finding = finding_of(recipe, facts, binding)
    place = place_in(one.match.quoted) or _own_place(words.name, facts)
    locations = (place, *finding.locations) if place is not None else finding.locations
    finding = replace(
        finding,
        severity=one.severity,
        title=title_of(recipe, facts, binding, finding.title),
        certainty="inferred" if finding.family else "seen",
        locations=tuple(dict.fromkeys(locations)),
        evidence=tuple(dict.fromkeys((*finding.evidence, words))),
    )
    return Message(words=words, recipe=recipe, binding=binding, finding=finding)


def _own_place(name: FactName, facts: FactSet) -> Location | None:
    """The place of the message: the launch of a kernel, or the line at which an import ended."""
    for attribute in ("place", "where"):
        text = facts.text(replace(name, attribute=attribute))
        file, _, line = (text or "").rpartition(":")
        if file and line.isdigit():
            return Location(file=file, line=int(line))
    return None
