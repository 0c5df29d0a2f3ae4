"""Facts in the words of a report."""

from __future__ import annotations

import pytest

from attn_doctor.model.facts import Fact, FactName, Known, State, Unknown
from attn_doctor.model.vocabulary import TERMS
from attn_doctor.report.words import phrases, verdict

LISTS = [term.name for term in TERMS if term.name.startswith("listed.")]


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("state", [Known(3), Unknown("the driver does not answer")], ids=["known", "unknown"])
def test_no_evidence_is_the_name_of_a_list(name: str, state: State) -> None:
    """`listed.gpu is 3` says nothing to who reads a report."""
    words = phrases.evidence(Fact(name=FactName.parse(name), state=state, how=""))

    assert "listed" not in words
    assert ("3" in words) is isinstance(state, Known)


def test_other_evidence_names_its_fact() -> None:
    """What somebody may assume or look up is called by its name."""
    fact = Fact(name=FactName.parse("driver.version"), state=Known("535.104"), how="NVML")

    assert phrases.evidence(fact) == phrases.said(fact) == "driver.version is 535.104"


@pytest.mark.parametrize(
    ("user", "owner", "said"),
    [(0, 1000, True), (0, 0, False), (1000, 1000, False), (1000, 1001, False), (0, None, False)],
)
def test_root_is_told_whose_code_ran(user: int, owner: int | None, said: bool) -> None:
    """Another user's code ran as root; nobody else's rights are lent by looking."""
    assert bool(verdict.as_root(user, owner, quick=True)) is said
    if said:
        assert verdict.as_root(user, owner, quick=True) != verdict.as_root(user, owner, quick=False)
