"""Binds a finding to its members of plural kinds: its own subject, and members of other kinds that belong to it.

A finding about an extension also concerns the package of the extension, and no other package: `package.version` in the
conditions and `{package.version}` in the commands of its remedies mean that package. check, trace, explain and fix bind
alike, so that each of them refutes a remedy for another package.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin
from attn_doctor.model.kinds import KINDS, kind_of
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.recipe import AnyOf, Condition

#: One member of each plural kind involved: `{"extension": "xformers._C", "package": "xformers"}`.
Bound: TypeAlias = Mapping[str, str]

NOBODY: Bound = {}

_PACKAGE = FactName.parse("subject.package")
_PARTS = tuple(kind.name for kind in KINDS if kind.part_of_package)


@dataclass(frozen=True, slots=True)
class Binding:
    """The members that a finding concerns, by kind; a kind that is missing is not bound."""

    kind: str = ""
    """The kind for which its recipe is evaluated one member at a time; empty for a recipe about the whole node."""
    subject: str = ""
    members: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def named(self) -> str:
        """`extension xformers._C`, as in a finding's subjects; empty for the whole node."""
        return f"{self.kind} {self.subject}" if self.kind else ""

    @property
    def bound(self) -> Bound:
        """One member of each kind, for texts and for conditions about its own kind alone."""
        return {kind: names[0] for kind, names in self.members}

    def of(self, kind: str) -> tuple[str, ...]:
        """Its members of this kind; empty when none is bound."""
        return dict(self.members).get(kind, ())

    def choices(self, conditions: Iterable[Condition], facts: FactSet) -> Iterator[Bound]:
        """Yields every combination of members for the conditions: its own members, and all members of a kind of which
        it has none.
        """
        kinds = [kind for kind in dict.fromkeys(kinds_of(conditions)) if kind != self.kind]
        own = [self.of(kind) or facts.subjects(kind) or ("0",) for kind in kinds]
        for chosen in itertools.product(*own):
            yield {**self.bound, **dict(zip(kinds, chosen, strict=True))}


def kinds_of(conditions: Iterable[Condition]) -> Iterator[str]:
    """The plural kinds in the conditions, each evaluated one member at a time."""
    for condition in conditions:
        for question in condition.questions if isinstance(condition, AnyOf) else (condition,):
            if question.fact.each:
                yield question.fact.kind


def bound_fact(name: FactName, facts: FactSet, bound: Bound) -> Fact:
    """The fact that a recipe's name refers to under this binding: for a plural kind that of the bound member or of the
    finding's own subject. A plural name whose kind is not bound stays undecided."""
    if name == _PACKAGE:
        told = facts.fact(name)
        if "package" not in bound or told.state == Known(bound["package"]):
            return told
        return Fact(name=name, state=Known(bound["package"]), how="the finding is about it", origin=Origin.DERIVED)
    return facts.fact(name.of(bound[name.kind]) if name.each and name.kind in bound else name)


def bind(facts: FactSet, kind: str | None, subject: str | None) -> Binding:
    """The binding of a finding on this member, by the facts that say what belongs to what; of a finding about the
    whole, on the package that a log's message is about."""
    if kind is None or subject is None:
        package = facts.text(_PACKAGE)
        return Binding(members=((("package", (package,)),) if package else ()) + _only_gpu(facts))
    members: dict[str, tuple[str, ...]] = {**dict(_only_gpu(facts)), kind: (subject,)}
    waiting = [(kind, subject)]
    while waiting:
        of, one = waiting.pop()
        for other in kind_of(of).belongs_to:
            name = facts.text(FactName(of, one, other))
            if name and other not in members:
                members[other] = (name,)
                waiting.append((other, name))
    for package in members.get("package", ()):
        for part in _PARTS:
            if part not in members:
                found = tuple(
                    one for one in facts.subjects(part) if facts.text(FactName(part, one, "package")) == package
                )
                if found:
                    members[part] = found
    return Binding(kind, subject, tuple(members.items()))


def _only_gpu(facts: FactSet) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The GPU, where there is one alone: what is said of a GPU is said of it."""
    gpus = facts.subjects("gpu")
    return (("gpu", tuple(gpus)),) if len(gpus) == 1 else ()
