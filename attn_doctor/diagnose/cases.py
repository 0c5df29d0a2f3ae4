"""Runs the cases that a recipe carries: its own tests, also behind `attn-doctor recipes test`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from attn_doctor.cookbook.recipe import Case, Recipe
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.model.facts import PLURAL_KINDS, Absent, Fact, FactName, FactSet, Known, Origin, State, Unknown
from attn_doctor.model.vocabulary import TERMS


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What came of one case; `fault` is empty when it came out as expected."""

    recipe: str
    number: int
    fault: str


def run_cases(recipe: Recipe) -> Iterator[CaseResult]:
    """One result for each case, in order."""
    for number, case in enumerate(recipe.cases, start=1):
        fault = _log_fault(recipe, case.log, case.expect) if case.log is not None else _facts_fault(recipe, case)
        yield CaseResult(recipe=recipe.id, number=number, fault=fault)


def case_facts(case: Case) -> FactSet:
    """The case's facts; what it does not name is absent, unless it calls it unknown."""
    facts: dict[FactName, State] = {}
    for term in TERMS:
        name = FactName.parse(term.name)
        if name.kind not in PLURAL_KINDS and name.kind != "env":
            facts[name] = Known(0) if name.kind == "listed" else Absent("the case does not name it")
    for name, value in case.facts:
        facts[name.of("0") if name.each else name] = Known(value)
    for name in case.unknown:
        facts[name.of("0") if name.each else name] = Unknown("the case calls it unknown")
    for name in tuple(facts):
        # Members that a case speaks of are whole: what it does not say of them is absent, unless unknown.
        if name.kind in PLURAL_KINDS and name.subject:
            for term in TERMS:
                kind, _, attribute = term.name.partition(".*.")
                if kind == name.kind and attribute:
                    facts.setdefault(FactName(kind, name.subject, attribute), Absent("the case does not name it"))
    return derive(
        FactSet(Fact(name=name, state=state, how="the case", origin=Origin.ASSUMED) for name, state in facts.items())
    )


def _facts_fault(recipe: Recipe, case: Case) -> str:
    diagnosis = judge(case_facts(case), [recipe])
    got = "finds" if diagnosis.findings else "open" if diagnosis.open_questions else "clears"
    if got != case.expect:
        undecided = sorted({str(fact.name) for question in diagnosis.open_questions for fact in question.undecided})
        return f"expected {case.expect}, got {got}" + (f" (undecided: {', '.join(undecided)})" if undecided else "")
    if not diagnosis.findings:
        return ""
    finding = diagnosis.findings[0]
    if case.severity is not None and finding.severity is not case.severity:
        return f"expected {case.severity.value}, got {finding.severity.value}"
    offered = tuple(remedy.id for remedy in finding.remedies)
    if case.offers and offered != case.offers:
        return f"expected the remedies {', '.join(case.offers)}; got {', '.join(offered) or 'none'}"
    return ""


def _log_fault(recipe: Recipe, log: str, expect: str) -> str:
    matched = any(
        re.search(one.pattern, log) and not (one.unless and re.search(one.unless, log)) for one in recipe.logs
    )
    got = "finds" if matched else "clears"
    return "" if got == expect else f"expected {expect}, got {got} for the log {log!r}"
