"""A node examined by its files and in depth is one node with one vote, and its depth changes nobody else's verdict."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.fleet import golden
from attn_doctor.fleet.cohorts import COHORT_BY
from attn_doctor.fleet.nodeset import fold
from attn_doctor.model.fleet import FleetVerdict, State
from attn_doctor.report.words.fleet import cohort_lines, sections
from tests.fleet.reports import found, hashed, report
from tests.fleet.test_verdict import NOW, drift, fleet, fleets, gathered, verdict

LATER = "2026-11-21T05:00:20+00:00"


def quick(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same, by files alone."""
    return [{**one, "quick": True} for one in reports]


def deep(written: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """The deep report that follows a quick one, with other facts where they are given."""
    fingerprint = {**written["fingerprint"], "facts": {**written["fingerprint"]["facts"], **facts}}
    return hashed({**written, "quick": False, "created": LATER, "fingerprint": fingerprint})


def healthy(written: dict[str, Any]) -> dict[str, Any]:
    """The same without findings: those of a deep report stand for the nodes of its fingerprint."""
    return {**written, "findings": [], "summary": {**written["summary"], "exit_status": 0}}


def odd(*names: str, torch: str = "2.12.1") -> dict[str, dict[str, Any]]:
    """These nodes have another torch."""
    return {name: report(name, **{"packages.torch": torch}) for name in names}


def states_of_others(answer: FleetVerdict, examined: set[str]) -> dict[str, State]:
    """The states of the nodes that were not examined in depth."""
    return {node: state for node, state in answer.states.items() if node not in examined}


@pytest.mark.parametrize(("count", "odd_ones"), [(8, ("n05",)), (16, ("n07", "n11")), (64, ("n01", "n02", "n03"))])
def test_representatives_do_not_outvote(count: int, odd_ones: tuple[str, ...]) -> None:
    """One of the many and every odd one are examined in depth: the odd ones differ, and nobody else does."""
    files = quick(fleet(count, **odd(*odd_ones)))
    first = next(one for one in files if one["node"]["name"] not in odd_ones)
    in_depth = [deep(one) for one in files if one["node"]["name"] in odd_ones] + [deep(first)]
    answer = verdict([*files, *in_depth])

    assert drift(answer) == {odd_ones: (("packages.torch", "2.13.0+cu130", "2.12.1"),)}
    assert answer.nodes_in(State.DRIFTS) == odd_ones
    assert len(answer.nodes_in(State.FIT)) == count - len(odd_ones)
    assert [cohort.deep for cohort in answer.cohorts] == [tuple(sorted({first["node"]["name"], *odd_ones}))]
    titles = [section.title for section in sections(answer, fold)]
    assert len(titles) == len(set(titles))
    assert len(list(cohort_lines(answer, fold))) == 1


def test_two_groups_stay_undecided() -> None:
    """Four against four: whoever is examined in depth, nothing is decided."""
    files = quick(fleet(8, **odd("n01", "n02", "n03", "n04")))
    answer = verdict([*files, *(deep(one) for one in files[:4])])

    assert [one.fact for cohort in answer.cohorts for one in cohort.undecided] == ["packages.torch"]
    assert drift(answer) == {}


@pytest.mark.parametrize("order", [1, -1])
def test_a_deep_report_is_held_against_the_vote_of_files(order: int) -> None:
    """What changed on a node between its two reports is its own difference."""
    files = quick(fleet(3))
    answer = verdict([*files, deep(files[1], **{"packages.triton": "3.2.0", "packages.flash-attn": "2.8.3"})][::order])

    assert drift(answer) == {
        ("n02",): (("packages.flash-attn", "absent", "2.8.3"), ("packages.triton", "3.6.0", "3.2.0"))
    }
    assert answer.nodes_in(State.FIT) == ("n01", "n03")


def test_what_files_do_not_say() -> None:
    """Files could not tell the GPUs anywhere; the node whose deep examination could is known, the others are not."""
    blind = {"gpu_count": {"unknown": "hidden"}}
    files = quick([report(name, **blind) for name in ("n01", "n02", "n03")])
    answer = verdict([*files, deep(files[0], gpu_count=8)])

    assert drift(answer) == {}
    assert answer.states == {"n01": State.FIT, "n02": State.UNSURE, "n03": State.UNSURE}


def test_files_of_an_earlier_round_have_no_vote() -> None:
    """All nodes were upgraded and examined in depth since: last week's quick reports are history."""
    week = (NOW - timedelta(days=7)).isoformat()
    old = quick([report(f"n0{number}", created=week, **{"packages.torch": "2.12.1"}) for number in (1, 2, 3)])

    assert verdict([*old, *fleet(3)]).exit_status == 0


def test_a_golden_file_is_one_vote_a_node() -> None:
    """The representatives of eight nodes are not eight nodes."""
    files = quick(fleet(8, **odd("n05")))
    made = golden.make_golden(gathered([*files, deep(files[0]), deep(files[4])]), cohort_by=COHORT_BY, created="now")

    assert made.undecided == ()
    assert '"packages.torch": "2.13.0+cu130"' in made.text


@given(fleets(), st.data())
def test_depth_changes_nobody_elses_verdict(reports: list[dict[str, Any]], data: st.DataObject) -> None:
    """Whatever subset of nodes also has deep reports, whatever those hold, in whatever order all arrive."""
    files = quick(reports)
    chosen = data.draw(st.lists(st.sampled_from(files), unique_by=id))
    changes = st.dictionaries(
        st.sampled_from(["packages.torch", "gpu_count", "packages.new", "driver"]),
        st.sampled_from(["2.12.1", None, 7, {"unknown": "x"}]),
    )
    more = [healthy(deep(one, **data.draw(changes))) for one in chosen]
    examined = {one["node"]["name"] for one in more}
    everything = data.draw(st.permutations([*files, *more]))

    assert states_of_others(verdict(everything), examined) == states_of_others(verdict(files), examined)


@given(fleets(), st.data())
def test_a_deep_report_that_says_the_same_changes_nothing(reports: list[dict[str, Any]], data: st.DataObject) -> None:
    """The state of the node itself stays as well."""
    files = quick(reports)
    last = {one["node"]["name"]: one for one in sorted(files, key=lambda one: str(one["created"]))}
    chosen = data.draw(st.lists(st.sampled_from(sorted(last)), unique=True))
    fit = [last[name] for name in chosen if not last[name]["findings"]]
    alone = [one for one in fit if sum(other["node"] == one["node"] for other in files) == 1]

    assert verdict([*(deep(one) for one in alone), *files]).states == verdict(files).states


def test_findings_of_a_deep_report_still_stand_for_its_fingerprint() -> None:
    """A trouble seen in depth on one node is that of the nodes with its fingerprint, and of no other."""
    files = quick(fleet(6, **odd("n05")))
    answer = verdict([*files, found(deep(files[0]))])

    assert answer.nodes_in(State.FAILS) == ("n01", "n02", "n03", "n04", "n06")
    assert answer.nodes_in(State.DRIFTS) == ("n05",)
