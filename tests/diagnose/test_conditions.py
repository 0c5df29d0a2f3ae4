"""Questions to facts: examples for people, one law for all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.diagnose.conditions import answer, answer_all
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Unknown
from attn_doctor.model.findings import Verdict
from attn_doctor.recipes.recipe import Affected, AtLeast, Below, Matches, OneOf, Present
from tests import strategies

TRITON = FactName.parse("package.triton.version")


def _facts(name: FactName, state: object) -> FactSet:
    return FactSet([Fact(name=name, state=state, how="a test")])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "introduced", "fixed", "verdict"),
    [
        ("3.3.9", "3.4.0", "3.7.1", Verdict.FAILS),
        ("3.4.0", "3.4.0", "3.7.1", Verdict.HOLDS),
        ("3.7.0", "3.4.0", "3.7.1", Verdict.HOLDS),
        ("3.7.1", "3.4.0", "3.7.1", Verdict.FAILS),
        ("3.7.1.post1", "3.4.0", "3.7.1", Verdict.FAILS),
        ("3.7.0+git1234", "3.4.0", "3.7.1", Verdict.HOLDS),
        ("2.6.0+cu124", None, "2.6.0", Verdict.FAILS),
        ("2.5.1+cu124", None, "2.6.0", Verdict.HOLDS),
        # a vendor's build from before the boundary may or may not hold the change
        ("2.6.0a0+ecf3bae40a.nv25.1", None, "2.6.0", Verdict.OPEN),
        ("2.6.0.dev20250101", "2.6.0", None, Verdict.OPEN),
        ("3.0.0rc1", "3.0.0", "3.1.0", Verdict.OPEN),
        # of another version it is not
        ("2.6.0a0+ecf3bae40a.nv25.1", None, "2.7.0", Verdict.HOLDS),
        ("2.6.0a0+ecf3bae40a.nv25.1", "2.7.0", None, Verdict.FAILS),
        ("unknown", "2.7.0", None, Verdict.OPEN),
    ],
)
def test_affected(version: str, introduced: str | None, fixed: str | None, verdict: Verdict) -> None:
    """Ranges hold by plain ordering; a pre-release of the boundary version is open."""
    question = Affected(fact=TRITON, introduced=introduced, fixed=fixed)

    assert answer(question, _facts(TRITON, Known(version))) is verdict


@pytest.mark.parametrize(("value", "holds"), [("7.5", True), ("8.0", False), ("10.0", False), ("12.1", False)])
def test_capabilities_compare_as_numbers(value: str, holds: bool) -> None:
    """Compute capability 10.0 is not below 8.0, though its text is."""
    name = FactName.parse("gpu.0.compute_capability")
    question = Below(fact=FactName.parse("gpu.compute_capability"), bound="8.0")

    assert (answer(question, _facts(name, Known(value)), {"gpu": "0"}) is Verdict.HOLDS) is holds


def test_driver_versions_compare_as_versions() -> None:
    """Driver 1000.1 is at least 580, and 99.1 is not."""
    name = FactName.parse("driver.version")

    assert answer(AtLeast(fact=name, bound="580"), _facts(name, Known("1000.1"))) is Verdict.HOLDS
    assert answer(AtLeast(fact=name, bound="580"), _facts(name, Known("99.1"))) is Verdict.FAILS


def test_one_of_does_not_mix_types() -> None:
    """True is not 1."""
    name = FactName.parse("extension.x.cudart_major")

    assert answer(OneOf(fact=name, values=(True,)), _facts(name, Known(1))) is Verdict.FAILS


def test_lists_hold_for_one_element() -> None:
    """A question about several texts holds when it holds for one of them; an empty list is absent."""
    name = FactName.parse("extension.x.missing_symbols")

    assert answer(Matches(fact=name, pattern="^nccl"), _facts(name, Known(("a", "ncclX")))) is Verdict.HOLDS
    assert answer(Present(fact=name, present=True), _facts(name, Known(()))) is Verdict.FAILS
    assert answer(Present(fact=name, present=False), _facts(name, Known(()))) is Verdict.HOLDS


def test_three_answers() -> None:
    """Unknown is open whatever is asked; absent settles."""
    question = Affected(fact=TRITON, introduced=None, fixed="3.0")

    assert answer(question, _facts(TRITON, Unknown("hung"))) is Verdict.OPEN
    assert answer(question, _facts(TRITON, Absent())) is Verdict.FAILS
    assert answer(Present(fact=TRITON, present=False), _facts(TRITON, Absent())) is Verdict.HOLDS
    assert answer(Present(fact=TRITON, present=False), FactSet()) is Verdict.OPEN


@given(facts=strategies.factsets(), conditions=strategies.conditions, data=st.data())
def test_learning_more_never_turns_a_settled_verdict(facts: FactSet, conditions: tuple, data: st.DataObject) -> None:
    """What holds or fails with something unknown does so whatever the unknown turns out to be."""
    before = answer_all(conditions, facts)
    learnt = facts.with_facts(
        Fact(name=fact.name, state=data.draw(strategies.settled_state(fact.name)), how="learnt")
        for fact in facts.values()
        if isinstance(fact.state, Unknown)
    )
    after = answer_all(conditions, learnt)

    assert before is Verdict.OPEN or after is before


@given(facts=strategies.factsets(), conditions=strategies.conditions)
def test_settled_facts_settle_the_verdict(facts: FactSet, conditions: tuple) -> None:
    """The useful twin: with everything known, only versions at a boundary stay open."""
    known = all(not isinstance(fact.state, Unknown) for fact in facts.values())
    version = facts.value(strategies.TRITON)
    vendor = isinstance(version, str) and any(mark in version for mark in ("a0", "dev", "rc"))

    assert not (known and not vendor) or answer_all(conditions, facts) is not Verdict.OPEN
