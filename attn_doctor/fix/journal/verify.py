"""Decides from the diagnoses before and after whether a plan fixed its findings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attn_doctor.model.facts import FactSet, Known, State, Unknown
from attn_doctor.model.findings import Diagnosis, Finding, Severity
from attn_doctor.model.plans import Plan


def troubles(plan: Plan, before: Diagnosis, after: Diagnosis) -> tuple[str, ...]:
    """Why the plan failed; empty when every finding is gone and no new one is as severe."""
    found = []
    now = tuple(_flat(after.findings))
    # A recipe that was not evaluated is no proof either: a traced run that was resumed without its trace.
    opened = {*(question.recipe for question in after.open_questions), *after.not_asked}
    worst_cured = Severity.ERROR
    for step in plan.steps:
        for cured in step.cures:
            severity = Severity(cured.severity)
            worst_cured = max(worst_cured, severity, key=lambda one: one.rank)
            for one in now:
                if one.id == cured.finding and (not cured.subjects or set(cured.subjects) & set(one.subjects)):
                    found.append(f"{one.id} is still there: {one.title}")
            if cured.finding in opened:
                found.append(f"it is not known whether {cured.finding} is gone")
    known = {key: one.severity.rank for one in _flat(before.findings) for key in _keys(one)}
    for one in now:
        fresh = [key for key in _keys(one) if known.get(key, 99) > one.severity.rank]
        if fresh and one.severity.rank <= worst_cured.rank and not any(one.id in text for text in found):
            found.append(f"{one.id} appeared: {one.title}")
    return tuple(dict.fromkeys(found))


def _flat(findings: Iterable[Finding]) -> Iterator[Finding]:
    for one in findings:
        yield one
        yield from _flat(one.symptoms)


def _keys(finding: Finding) -> tuple[tuple[str, str], ...]:
    return tuple((finding.id, subject) for subject in finding.subjects) or ((finding.id, ""),)


def changed_grounds(plan: Plan, facts: FactSet) -> tuple[str, ...]:
    """The facts on which a plan rests and that have changed since."""
    return tuple(
        f"{ground.name}: was {_said(ground.state)}, is {_said(facts.fact(ground.name).state)}"
        for ground in plan.grounds
        if _essence(ground.state) != _essence(facts.fact(ground.name).state)
    )


def _essence(state: State) -> object:
    # Reasons are free text; another installation may word them differently.
    return state if isinstance(state, Known) else type(state)


def _said(state: State) -> str:
    if isinstance(state, Known):
        return str(state.value)
    return "not known" if isinstance(state, Unknown) else "absent"
