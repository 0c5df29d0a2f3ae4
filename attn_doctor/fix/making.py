"""A plan under way: what the parts of make.py share."""

from __future__ import annotations

from dataclasses import dataclass, field

from attn_doctor.fix.choose import Chosen
from attn_doctor.model.facts import Fact, FactName, FactSet
from attn_doctor.model.findings import Action, Finding, Safety
from attn_doctor.model.plans import Change, Cured, Left, Reversal, Step


@dataclass(slots=True, kw_only=True)
class Making:
    """What is known so far."""

    facts: FactSet
    configs: tuple[str, ...]
    projects: tuple[str, ...]
    prefix: str
    here: str
    """The current project; empty where there is none."""
    sealed: bool = False
    """The environment belongs to the system's package manager: nothing in it is touched."""
    steps: list[Step] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    grounds: dict[FactName, Fact] = field(default_factory=dict)

    def rest_on(self, finding: Finding) -> None:
        """The plan is stale once the finding's evidence is."""
        self.grounds.update({fact.name: fact for fact in finding.evidence})

    def add(self, change: Change, chosen: list[Chosen], cures: tuple[Cured, ...]) -> None:
        """One more step that can be taken back exactly."""
        for one in chosen:
            self.rest_on(one.finding)
        self.steps.append(
            Step(
                change=change,
                cures=cures,
                safety=least_safe(chosen),
                why_this_safety=why(chosen),
                reversal=Reversal.EXACT,
            )
        )


def has(chosen: Chosen, kind: str) -> bool:
    """Whether its remedy holds an action of this kind."""
    return any(action.kind == kind for action in chosen.remedy.actions)


def actions(chosen: Chosen, kind: str) -> list[Action]:
    """The remedy's actions of this kind."""
    return [action for action in chosen.remedy.actions if action.kind == kind]


def cured(chosen: Chosen, only: tuple[str, ...] | None = None) -> Cured:
    """What a step cures."""
    finding = chosen.finding
    return Cured(
        finding=finding.id,
        subjects=finding.subjects if only is None else only,
        severity=finding.severity.value,
        remedy=chosen.remedy.id,
        title=chosen.remedy.title,
        origin=finding.origin,
    )


def least_safe(chosen: list[Chosen]) -> Safety:
    """The step is as safe as the least safe remedy in it."""
    return max((one.remedy.safety for one in chosen), key=list(Safety).index)


def why(chosen: list[Chosen]) -> str:
    """Their reasons, each once."""
    return " ".join(dict.fromkeys(one.remedy.why_this_safety for one in chosen if one.remedy.why_this_safety))
