"""Evaluates one condition on one fact. A definite answer never changes when more facts become known."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from attn_doctor.diagnose.binding import NOBODY, Bound, bound_fact
from attn_doctor.model.facts import Absent, Fact, FactSet, Scalar, Unknown
from attn_doctor.model.findings import Verdict
from attn_doctor.model.vocabulary import ValueType, term_of
from attn_doctor.recipes.recipe import Affected, AnyOf, AtLeast, Below, Condition, Matches, OneOf, Present, Question


def fact_of(question: Question, facts: FactSet, bound: Bound) -> Fact:
    """The fact of the condition; `bound` gives the member of a plural kind."""
    name = question.fact
    assert not name.each or name.kind in bound, f"{name} asked without a subject"
    return bound_fact(name, facts, bound)


def answer(question: Question, facts: FactSet, bound: Bound = NOBODY) -> Verdict:
    """HOLDS, FAILS, or OPEN when the fact is unknown or cannot be compared."""
    fact = fact_of(question, facts, bound)
    state = fact.state
    if isinstance(state, Unknown):
        return Verdict.OPEN
    absent = isinstance(state, Absent) or state.value in ((), "")
    if isinstance(question, Present):
        return _verdict(absent is not question.present)
    if isinstance(state, Absent) or absent:
        return Verdict.FAILS
    term = term_of(fact.name)
    kind = term.kind if term else ValueType.TEXT
    values = state.value if isinstance(state.value, tuple) else (state.value,)
    return _any(_one(question, value, kind) for value in values)


def answer_all(conditions: Iterable[Condition], facts: FactSet, bound: Bound = NOBODY) -> Verdict:
    """HOLDS when all hold. One that fails decides, even if others are open."""
    verdicts = [
        _any(answer(question, facts, bound) for question in condition.questions)
        if isinstance(condition, AnyOf)
        else answer(condition, facts, bound)
        for condition in conditions
    ]
    if Verdict.FAILS in verdicts:
        return Verdict.FAILS
    return Verdict.OPEN if Verdict.OPEN in verdicts else Verdict.HOLDS


def _any(verdicts: Iterable[Verdict]) -> Verdict:
    seen = list(verdicts)
    if Verdict.HOLDS in seen:
        return Verdict.HOLDS
    return Verdict.OPEN if Verdict.OPEN in seen else Verdict.FAILS


def _verdict(holds: bool) -> Verdict:
    return Verdict.HOLDS if holds else Verdict.FAILS


def _one(question: Question, value: Scalar, kind: ValueType) -> Verdict:
    if isinstance(question, OneOf):
        return _verdict(any(type(value) is type(wanted) and value == wanted for wanted in question.values))
    if isinstance(question, Matches):
        return _verdict(re.search(question.pattern, str(value)) is not None)
    if isinstance(question, Affected):
        return _affected(str(value), question)
    if isinstance(question, (Below, AtLeast)):
        below = _is_below(value, question.bound, kind)
        if below is None:
            return Verdict.OPEN
        return _verdict(below if isinstance(question, Below) else not below)
    raise AssertionError(question)


def is_beyond(text: str, question: Affected) -> bool:
    """True when this release is newer than the newest one checked for a range without end."""
    if question.looked_at is None:
        return False
    try:
        return Version(Version(text).base_version) > Version(question.looked_at)
    except InvalidVersion:
        return False


def _affected(text: str, question: Affected) -> Verdict:
    introduced, fixed = question.introduced, question.fixed
    if is_beyond(text, question):
        return Verdict.OPEN
    # PEP 440 specifiers do not work here: 2.6.0a0+git.nv25.1 is in neither <2.6 nor >=2.6, and a vendor's build of the
    # boundary version may or may not contain the change. So versions are only ordered, and the boundary is OPEN.
    after = True if introduced is None else _before(introduced, text)
    before = True if fixed is None else _negated(_before(fixed, text))
    if after is False or before is False:
        return Verdict.FAILS
    return Verdict.OPEN if after is None or before is None else Verdict.HOLDS


def _negated(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _before(bound: str, text: str) -> bool | None:
    """bound <= version; None when undecidable."""
    try:
        version = Version(text)
    except InvalidVersion:
        return None
    limit = Version(bound)
    if version.is_prerelease and version.release == limit.release and not limit.is_prerelease:
        return None
    return limit <= Version(version.public)


def _is_below(value: Scalar, bound: Scalar, kind: ValueType) -> bool | None:
    if kind is ValueType.VERSION:
        return _negated(_before(str(bound), str(value)))
    if kind is ValueType.CAPABILITY:
        return capability(str(value)) < capability(str(bound))
    if isinstance(value, str) or isinstance(bound, str):
        return None
    return value < bound


def capability(text: str) -> tuple[int, int]:
    """`9.0` -> (9, 0)."""
    major, _, minor = text.partition(".")
    return int(major), int(minor or 0)
