"""Runs the test cases inside a recipe, for `attn-doctor recipes test` and the tests."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, State, Unknown
from attn_doctor.model.findings import Finding
from attn_doctor.model.kinds import PLURAL
from attn_doctor.model.outcomes import Certainty
from attn_doctor.model.vocabulary import TERMS
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.recipe import Case, Recipe

_SYSTEM = FactName.parse("node.system")
_UNNAMED = Absent("the case does not name it")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """Result of one case; `fault` is empty when it is as expected."""

    recipe: str
    number: int
    fault: str


def run_cases(recipe: Recipe) -> Iterator[CaseResult]:
    """One result for each case, in order."""
    for number, case in enumerate(recipe.cases, start=1):
        fault = _log_fault(recipe, case, case.log) if case.log is not None else _facts_fault(recipe, case)
        yield CaseResult(recipe=recipe.id, number=number, fault=fault)


def case_facts(case: Case) -> FactSet:
    """The case's facts; a fact that it does not name is absent, unless it is listed as unknown."""
    facts = dict(_nothing_named())
    for name, value in case.facts:
        facts[name.of("0") if name.each else name] = Known(value)
    for name in case.unknown:
        facts[name.of("0") if name.each else name] = Unknown("the case calls it unknown")
    for name in tuple(facts):
        # Members named by a case are complete: their other attributes are absent, unless listed as unknown.
        if name.kind in PLURAL and name.subject:
            for attribute in _attributes().get(name.kind, ()):
                facts.setdefault(FactName(name.kind, name.subject, attribute), _UNNAMED)
    return derive(
        FactSet(Fact(name=name, state=state, how="the case", origin=Origin.ASSUMED) for name, state in facts.items())
    )


@functools.cache
def _nothing_named() -> Mapping[FactName, State]:
    facts: dict[FactName, State] = {}
    for term in TERMS:
        name = FactName.parse(term.name)
        if name.kind not in PLURAL and name.kind != "env":
            facts[name] = Known(0) if name.kind == "listed" else _UNNAMED
    facts[_SYSTEM] = Known("Linux")  # a case is about a Linux node, unless it names another system
    return facts


@functools.cache
def _attributes() -> Mapping[str, list[str]]:
    """What there is to know of a member of each plural kind, in order."""
    found: dict[str, list[str]] = {}
    for term in TERMS:
        kind, _, attribute = term.name.partition(".*.")
        if attribute:
            found.setdefault(kind, []).append(attribute)
    return found


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
    return _offers_fault(case, finding)


def _log_fault(recipe: Recipe, case: Case, log: str) -> str:
    # In a case about a log, missing facts are unknown, as they are when only the log is available.
    facts = FactSet(
        Fact(name=name.of("0") if name.each else name, state=Known(value), how="the case", origin=Origin.ASSUMED)
        for name, value in case.facts
    )
    diagnosis = explain_text(log, [recipe], facts, pasted=False).diagnosis
    got = "finds" if diagnosis.findings else "clears"
    # Reported, but not proven by the text or by the facts.
    if case.expect == "open" and diagnosis.findings and diagnosis.findings[0].certainty == Certainty.INFERRED:
        got = "open"
    if got != case.expect:
        return f"expected {case.expect}, got {got} for the log {log!r}"
    if case.severity is not None and diagnosis.findings and diagnosis.findings[0].severity is not case.severity:
        return f"expected {case.severity.value}, got {diagnosis.findings[0].severity.value} for the log {log!r}"
    if not diagnosis.findings:
        return ""
    (finding, *_) = diagnosis.findings
    told = next((fact.state for fact in finding.evidence if str(fact.name) == "log.reasons"), Known(()))
    if case.reasons and told != Known(case.reasons):
        return f"expected the reasons {case.reasons}; got {told} for the log {log!r}"
    return _offers_fault(case, finding)


def _offers_fault(case: Case, finding: Finding) -> str:
    offered = tuple(remedy.id for remedy in finding.remedies)
    if case.offers and offered != case.offers:
        return f"expected the remedies {', '.join(case.offers)}; got {', '.join(offered) or 'none'}"
    return ""
