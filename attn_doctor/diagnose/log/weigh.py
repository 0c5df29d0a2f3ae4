"""How much a match weighs: what its conditions come to, how bad it is, and which one stands first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from attn_doctor.cookbook.recipe import Recipe
from attn_doctor.diagnose.conditions import answer_all
from attn_doctor.diagnose.judge import asked, kind_of
from attn_doctor.diagnose.log.match import Match
from attn_doctor.diagnose.log.unit import UnitKind
from attn_doctor.model.facts import Fact, FactSet
from attn_doctor.model.findings import Severity, Verdict

#: Kinds of facts that a person can be asked for; whether an extension's symbols are there, a log never tells.
_ASKABLE = frozenset({"gpu", "package", "driver", "torch", "python", "libc", "cuda", "rocm", "env"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A match with what the facts say to it."""

    match: Match
    log: str
    facts: FactSet
    verdict: Verdict
    subject: str | None
    evidence: tuple[Fact, ...]
    """Facts whose questions it fulfils."""
    undecided: tuple[Fact, ...]
    """Facts that would decide it, as far as a person can tell them."""
    severity: Severity

    @property
    def proven(self) -> bool:
        """The text alone proves it, or the facts do."""
        return self.match.pattern.confirms or (self.verdict is Verdict.HOLDS and bool(self.evidence))

    @property
    def order(self) -> tuple[int, bool, int, int, int, int, int, int]:
        """The smallest stands first."""
        return (
            self.severity.rank,
            self.match.pattern.wrapper,
            self.match.unit.depth,
            0 if self.proven else 1 if self.evidence else 2,
            self.match.unit.kind is UnitKind.LINE,
            self.match.recipe.rank,
            -self.match.length,
            self.match.line,
        )


def weigh(match: Match, facts: FactSet, log: str) -> Weighed | None:
    """What the facts say; None when they speak against it."""
    recipe, pattern = match.recipe, match.pattern
    conditions = recipe.when if pattern.when is None else pattern.when
    subjects: Iterable[str | None] = (None,)
    kind = kind_of(conditions)
    if kind is not None:
        subjects = facts.subjects(kind) or ("0",)
    # Of several GPUs the one that fits best: whether the log's is among them is the question.
    verdicts = [(answer_all(conditions, facts, subject), subject) for subject in subjects]
    best, subject = min(verdicts, key=lambda one: (Verdict.HOLDS, Verdict.OPEN, Verdict.FAILS).index(one[0]))
    if (best is Verdict.FAILS and not pattern.confirms) or (best is Verdict.OPEN and pattern.only_with_facts):
        return None
    undecided = asked(conditions, facts, subject, Verdict.OPEN) if best is Verdict.OPEN else ()
    if pattern.confirms:
        undecided = ()
    return Weighed(
        match=match,
        log=log,
        facts=facts,
        verdict=Verdict.HOLDS if pattern.confirms else best,
        subject=subject,
        evidence=asked(conditions, facts, subject, Verdict.HOLDS),
        undecided=tuple(fact for fact in undecided if fact.name.kind in _ASKABLE),
        severity=_severity(match, recipe),
    )


def _severity(match: Match, recipe: Recipe) -> Severity:
    if match.pattern.severity is not None:
        return match.pattern.severity
    if match.unit.kind is UnitKind.WARNING:
        return recipe.severity  # a warning shows no more than the facts do
    if recipe.severity_when_reached is not None:
        return recipe.severity_when_reached
    return Severity.INFO if recipe.severity is Severity.INFO else Severity.ERROR
