"""Chooses a remedy for each finding, or the reason why there is none. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from attn_doctor.diagnose.binding import bind
from attn_doctor.diagnose.conditions import answer_all
from attn_doctor.diagnose.finding import asked
from attn_doctor.diagnose.placeholders import asked_in_texts
from attn_doctor.fix.plan_builder import Chosen, remaining, subjects
from attn_doctor.fix.treatments import NotForThisNode, PlannedTreatment, treatment_of
from attn_doctor.model.facts import FactSet, Known, Origin
from attn_doctor.model.findings import Diagnosis, Finding, Remedy, Safety, Severity, Verdict
from attn_doctor.model.plans import Remaining
from attn_doctor.model.remedies import InstallWheel
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The options that allow or select remedies."""

    unsafe: bool = False
    only: tuple[str, ...] = ()
    """Ids of recipes; when empty, all findings except notes."""
    named: tuple[str, ...] = ()
    """Ids of findings named with --only: they are fixed even when they rest on an assumption."""
    remedies: tuple[tuple[str, str], ...] = ()
    """(finding, remedy) pairs chosen by option instead of by the order of preference."""
    wheels: tuple[tuple[str, str], ...] = ()
    """(package, version) of the wheel files named by option."""


def choose(
    diagnosis: Diagnosis, facts: FactSet, recipes: Iterable[Recipe], policy: Policy
) -> tuple[tuple[Chosen, ...], tuple[Remaining, ...]]:
    """Chooses for each finding the first remedy with true conditions that the policy allows, or records why there is
    none.
    """
    shelf = {recipe.id: recipe for recipe in recipes}
    chosen = []
    staying = []
    for finding in diagnosis.findings:
        if not _wanted(finding, policy):
            continue
        got = _one(finding, facts, shelf.get(finding.id), policy)
        if isinstance(got, Chosen) and finding.id not in policy.named:
            supposed = assumptions_of(got, facts, shelf.get(finding.id))
            if supposed:
                rests = f"it rests on {', '.join(supposed)}, and not on what is there"
                got = remaining(finding, f"{rests}; its fix would be: {got.remedy.title}.", needs_naming=True)
        if isinstance(got, Chosen):
            chosen.append(got)
        else:
            staying.append(got)
    return tuple(chosen), tuple(staying)


def assumptions_of(chosen: Chosen, facts: FactSet, recipe: Recipe | None) -> tuple[str, ...]:
    """The assumptions on which the finding or its remedy rests, as typed."""
    written = next((one for one in recipe.remedies if one.id == chosen.remedy.id), None) if recipe else None
    grounds = list(chosen.finding.evidence)
    if recipe is not None and written is not None:
        for one in [bind(facts, recipe.for_each, subject) for subject in subjects(chosen.finding) or (None,)]:
            for bound in one.choices(written.when, facts):
                if answer_all(written.when, facts, bound) is Verdict.HOLDS:
                    grounds += asked(written.when, facts, bound, Verdict.HOLDS)
            grounds += asked_in_texts(written, facts, one.bound)
    if not any(fact.rests_on_assumption for fact in grounds):
        return ()
    own = [fact.how for fact in grounds if fact.origin is Origin.ASSUMED]
    return tuple(dict.fromkeys(own or [one.how for one in facts.values() if one.origin is Origin.ASSUMED]))


def _wanted(finding: Finding, policy: Policy) -> bool:
    if finding.accepted is not None:
        return False
    if policy.only:
        return finding.id in policy.only
    return finding.severity is not Severity.INFO


def _one(finding: Finding, facts: FactSet, recipe: Recipe | None, policy: Policy) -> Chosen | Remaining:
    asked = dict(policy.remedies).get(finding.id)
    doable = [
        remedy for remedy in finding.remedies if remedy.safety is not Safety.DISPLAY_ONLY and _by_a_program(remedy)
    ]
    if asked is not None:
        doable = [remedy for remedy in doable if remedy.id == asked]
        if not doable:
            return remaining(finding, f"{asked} is no fix that a program can carry out on this node")
    holding = [remedy for remedy in doable if recipe is not None and _holds(remedy, recipe, finding, facts)]
    notes: list[str] = []
    fitting_ones = []
    for remedy in holding:
        try:
            waits = _obstacle(remedy, facts, policy)
        except NotForThisNode as error:
            notes.append(str(error))
            continue
        if waits:
            return remaining(finding, waits)
        if remedy.safety is Safety.SAFE or policy.unsafe:
            return Chosen(finding=finding, remedy=remedy, notes=tuple(notes))
        fitting_ones.append(remedy)
    holding = fitting_ones
    if holding:
        words = f"needs --unsafe-fixes: {holding[0].title}"
        if holding[0].why_this_safety:
            words += f" ({holding[0].why_this_safety})"
        return remaining(finding, words, needs_unsafe=True)
    if doable and any(isinstance(one.action, InstallWheel) for remedy in doable for one in remedy.actions):
        return remaining(finding, "no wheel is published for this node, and nothing else can be done by a program here")
    if doable:
        return remaining(finding, "it is not known whether its fix suits this node")
    if finding.remedies:
        return remaining(finding, "no program should do it")
    if facts.fact("listed.gpu").state == Known(0) and not facts.subjects("gpu"):
        return remaining(finding, "no fix is known for a node without a GPU (--gpu NAME plans for one)")
    return remaining(finding, "no fix is known for this node")


def _obstacle(remedy: Remedy, facts: FactSet, policy: Policy) -> str:
    """What a person has to do before the remedy can be used; empty when nothing.

    Raises NotForThisNode when the remedy does not exist for this node; then the next remedy is tried.
    """
    wheels = dict(policy.wheels)
    found = (treatment_of(one.action).obstacle(one.action, facts, wheels) for one in remedy.actions)
    return next((words for words in found if words), "")


def _by_a_program(remedy: Remedy) -> bool:
    return any(isinstance(treatment_of(one.action), PlannedTreatment) for one in remedy.actions)


def _holds(remedy: Remedy, recipe: Recipe, finding: Finding, facts: FactSet) -> bool:
    """True when the remedy's conditions hold. Undecided conditions count as false: a person may still choose the
    remedy.
    """
    written = next((one for one in recipe.remedies if one.id == remedy.id), None)
    if written is None:
        return False
    return all(
        any(answer_all(written.when, facts, bound) is Verdict.HOLDS for bound in one.choices(written.when, facts))
        for one in [bind(facts, recipe.for_each, subject) for subject in subjects(finding) or (None,)]
    )
