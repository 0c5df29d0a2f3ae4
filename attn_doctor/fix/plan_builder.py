"""A plan under construction: the chosen remedies, and the steps added by treatments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from packaging.version import InvalidVersion, Version

from attn_doctor.fix.edits.pins import Manifests
from attn_doctor.fix.refusal import InCheckout, Refused, Unavailable
from attn_doctor.model.facts import Fact, FactName, FactSet
from attn_doctor.model.findings import Finding, Remedy, Safety
from attn_doctor.model.install_request import InstallRequest, name_of
from attn_doctor.model.plans import Change, Cured, FileEdit, Install, Remaining, Reversal, Step
from attn_doctor.model.remedies import Action, InstallPackages
from attn_doctor.quick_dataclasses import dataclass, field, replace

A = TypeVar("A", bound=Action)

#: Asks the installer what it would install. Raises Refused.
Resolve = Callable[[InstallRequest], Install]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A finding, and the remedy that the plan uses for it."""

    finding: Finding
    remedy: Remedy
    notes: tuple[str, ...] = ()
    """Why a better remedy was not used."""

    def actions(self, of: type[A]) -> list[A]:
        """The remedy's actions of this kind."""
        return [one.action for one in self.remedy.actions if isinstance(one.action, of)]


def _nothing_is_installed(request: InstallRequest) -> Install:
    raise Refused("there is no installer to ask")


@dataclass(slots=True, kw_only=True)
class PlanBuilder:
    """The plan so far, and the inputs for treatments."""

    facts: FactSet
    configs: tuple[str, ...]
    projects: tuple[str, ...]
    prefix: str
    here: str
    """The current project; empty when there is none."""
    sealed: bool = False
    """The environment belongs to the system's package manager and must not be changed."""
    manifests: Manifests = field(default_factory=Manifests)
    """Where lists of packages lie that would bring old releases back."""
    resolve: Resolve = _nothing_is_installed
    steps: list[Step] = field(default_factory=list)
    left: list[Remaining] = field(default_factory=list)
    grounds: dict[FactName, Fact] = field(default_factory=dict)

    def rest_on(self, finding: Finding) -> None:
        """Makes the plan depend on the finding's evidence: when that changes, the plan is stale."""
        self.grounds.update({fact.name: fact for fact in finding.evidence})

    def leave(self, chosen: Chosen, reason: str | Refused) -> None:
        """Leaves the finding open, although a remedy was chosen."""
        left = remaining(chosen.finding, str(reason))
        diff = reason.diff if isinstance(reason, InCheckout) else ""
        self.left.append(replace(left, unavailable=isinstance(reason, Unavailable), diff=diff))

    def add(self, change: Change, chosen: Sequence[Chosen], cures: tuple[Cured, ...], *, undo: str = "") -> None:
        """Adds a step. It can be undone exactly, unless `undo` gives a reason why not."""
        for one in chosen:
            self.rest_on(one.finding)
        self.steps.append(
            Step(
                change=change,
                cures=cures,
                safety=least_safe(chosen),
                why_this_safety=why(chosen),
                reversal=Reversal.BEST_EFFORT if undo else Reversal.EXACT,
                why_this_reversal=undo,
            )
        )

    def add_installation(self, install: Install, chosen: Sequence[Chosen], lists: Sequence[FileEdit] = ()) -> None:
        """Adds the step that installs, and those that record it in lists of packages; the plan becomes stale when the
        installed version of a package it changes differs.
        """
        for change in install.changes:
            fact = self.facts.fact(FactName("package", change.name, "version"))
            if fact.name in self.facts:
                self.grounds[fact.name] = fact
        self.add(install, chosen, tuple(cured(one) for one in chosen))
        step = self.steps[-1]
        more = _more_than_a_patch(install, chosen)
        if step.safety is Safety.SAFE and more:
            words = f"{step.why_this_safety} Here more changes: {more}.".strip()
            self.steps[-1] = step = replace(step, safety=Safety.UNSAFE, why_this_safety=words)
        self.steps += [replace(step, change=one) for one in lists]
        if lists and self.manifests.owning is not None:
            self.projects = tuple(dict.fromkeys((*self.projects, str(self.manifests.owning))))


def _more_than_a_patch(install: Install, chosen: Sequence[Chosen]) -> str:
    """What of an installation is more than another patch release of a package that a remedy names; empty if nothing.

    A remedy is called safe for two releases; what the installer makes of it here must be that.
    """
    named = {name_of(text) for one in chosen for action in one.actions(InstallPackages) for text in action.requirements}
    found = []
    for change in install.changes:
        if change.before is None:
            found.append(f"{change.name} {change.after} is new")
        elif change.name not in named or not _same_series(change.before, change.after):
            found.append(f"{change.name} {change.before} -> {change.after}")
    return ", ".join(found)


def _same_series(before: str, after: str) -> bool:
    try:
        return Version(before).release[:2] == Version(after).release[:2]
    except InvalidVersion:
        return False


def cured(chosen: Chosen, only: tuple[str, ...] | None = None) -> Cured:
    """The finding that a step fixes, for the plan."""
    finding = chosen.finding
    return Cured(
        finding=finding.id,
        subjects=finding.subjects if only is None else only,
        severity=finding.severity.value,
        remedy=chosen.remedy.id,
        title=chosen.remedy.title,
        origin=finding.origin,
    )


def remaining(finding: Finding, reason: str, *, needs_unsafe: bool = False, needs_naming: bool = False) -> Remaining:
    """The finding as one that stays open, with instructions for a person."""
    by_hand = []
    for remedy in finding.remedies:
        by_hand.append(remedy.title)
        for one in remedy.actions:
            by_hand += [f"  {one.action.advice}"] if one.action.advice else []
            by_hand += [f"  $ {command}" for command in one.commands] if one.action.for_a_shell else []
    return Remaining(
        finding=finding.id,
        severity=finding.severity.value,
        title=finding.title,
        reason=reason,
        needs_unsafe=needs_unsafe,
        needs_naming=needs_naming,
        by_hand=() if needs_unsafe or needs_naming else tuple(by_hand),
    )


def subjects(finding: Finding) -> tuple[str, ...]:
    """Its subjects without their kind: `train.yaml` for `config train.yaml`."""
    return tuple(one.partition(" ")[2] for one in finding.subjects)


def least_safe(chosen: Sequence[Chosen]) -> Safety:
    """The safety of a step: that of its least safe remedy."""
    return max((one.remedy.safety for one in chosen), key=list(Safety).index)


def why(chosen: Sequence[Chosen]) -> str:
    """Their reasons, each once."""
    return " ".join(dict.fromkeys(one.remedy.why_this_safety for one in chosen if one.remedy.why_this_safety))
