"""What reports come to: who is missing, fails, drifts; laws that hold for any fleet, and the cases people meet."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.fleet import golden
from attn_doctor.fleet.cohorts import COHORT_BY
from attn_doctor.fleet.extract import report_of
from attn_doctor.fleet.gather import Gathered
from attn_doctor.fleet.nodeset import fold
from attn_doctor.fleet.sampling import representatives
from attn_doctor.fleet.verdict import Question
from attn_doctor.fleet.verdict import verdict as judge
from attn_doctor.formats.fleet_v1 import dumps
from attn_doctor.model.fleet import FleetVerdict, State, Unreadable
from attn_doctor.report.words.fleet import sections
from tests.fleet.reports import found, hashed, line, report

NOW = datetime(2026, 11, 21, 5, 0, 30, tzinfo=timezone.utc)


def gathered(reports: Iterable[dict[str, Any] | Unreadable]) -> Gathered:
    """As if they had come through a pipe."""
    everything = Gathered()
    everything.add_all(one if isinstance(one, Unreadable) else report_of(line(one), source="a test") for one in reports)
    return everything


def verdict(reports: Iterable[dict[str, Any] | Unreadable], **question: Any) -> FleetVerdict:
    """The answer for these reports."""
    return judge(gathered(reports), Question(now=NOW, **question))


def fleet(count: int, **changes: dict[str, Any]) -> list[dict[str, Any]]:
    """n01, n02, …; `changes` by node."""
    names = [f"n{number:02d}" for number in range(1, count + 1)]
    return [changes.get(name, report(name)) for name in names]


def drift(answer: FleetVerdict) -> dict[tuple[str, ...], tuple[tuple[str, str | None, str], ...]]:
    """Critical drift: nodes → differences."""
    return {group.nodes: group.differences for cohort in answer.cohorts for group in cohort.drifting}


class TestOddOnes:
    """One fact differs."""

    def test_equal_nodes_are_fit(self) -> None:
        """Nothing to say."""
        answer = verdict(fleet(4), expected=("n01", "n02", "n03", "n04"))

        assert (answer.exit_status, set(answer.states.values())) == (0, {State.FIT})

    def test_another_version(self) -> None:
        """Nodes with the same difference are one line."""
        odd = {name: report(name, **{"packages.torch": "2.12.1"}) for name in ("n02", "n05")}
        answer = verdict(fleet(7, **odd))

        assert drift(answer) == {("n02", "n05"): (("packages.torch", "2.13.0+cu130", "2.12.1"),)}
        assert answer.exit_status == 1
        assert answer.nodes_in(State.DRIFTS) == ("n02", "n05")

    @pytest.mark.parametrize("there", ["null", "no such name"])
    def test_absent_is_a_value(self, there: str) -> None:
        """A package that one node lacks is drift, written as null or left out."""
        odd = report("n02", **{"packages.triton": None})
        if there == "no such name":
            del odd["fingerprint"]["facts"]["packages.triton"]

        assert drift(verdict(fleet(3, n02=odd))) == {("n02",): (("packages.triton", "3.6.0", "absent"),)}

    def test_present_on_one_alone(self) -> None:
        """The other way round."""
        odd = report("n02", **{"packages.flash-attn": "2.8.3"})

        assert drift(verdict(fleet(3, n02=odd))) == {("n02",): (("packages.flash-attn", "absent", "2.8.3"),)}

    def test_numbers_and_texts_are_two_values(self) -> None:
        """8 is not "8"."""
        assert drift(verdict(fleet(3, n02=report("n02", gpu_count="8")))) == {("n02",): (("gpu_count", "8", "8"),)}

    def test_benign_drift_does_not_gate(self) -> None:
        """It is listed, and the exit status stays 0."""
        answer = verdict(fleet(3, n02=report("n02", driver="570.86.10")))

        assert answer.exit_status == 0
        assert [group.nodes for group in answer.cohorts[0].benign] == [("n02",)]

    def test_could_not_look_is_no_drift_and_not_fit(self) -> None:
        """A critical fact that one node could not look at cannot be compared: 3, whatever the reason reads."""
        odd = {name: report(name, gpu_count={"unknown": f"driver hangs ({name})"}) for name in ("n02", "n05")}
        answer = verdict(fleet(7, **odd))

        assert (answer.exit_status, drift(answer)) == (3, {})
        assert answer.nodes_in(State.UNSURE) == ("n02", "n05")

    def test_what_could_not_be_listed_is_not_absent(self) -> None:
        """A probe of our own failed on one node: none of its packages is known, and none is missing."""
        odd = report("n02", **{"packages.*": {"unknown": "attn-doctor's own probe failed"}})
        for name in [one for one in odd["fingerprint"]["facts"] if one.startswith("packages.") and one[9:] != "*"]:
            del odd["fingerprint"]["facts"][name]
        answer = verdict(fleet(3, n02=hashed(odd)))

        assert (answer.exit_status, drift(answer)) == (3, {})
        assert answer.nodes_in(State.UNSURE) == ("n02",)

    def test_nobody_could_look(self) -> None:
        """That is the same on all nodes, and a benign fact decides nothing."""
        nodes = [report(f"n{number}", kernel={"unknown": f"reason {number}"}) for number in range(3)]

        assert verdict(nodes).exit_status == 0

    def test_who_could_not_look_has_no_vote(self) -> None:
        """Two of three could not: the third is not outvoted by them, and they are not fit."""
        odd = {name: report(name, gpu_count={"unknown": name}) for name in ("n01", "n03")}
        answer = verdict(fleet(3, **odd))

        assert (answer.exit_status, answer.nodes_in(State.UNSURE)) == (3, ("n01", "n03"))

    def test_no_majority(self) -> None:
        """Two against two: both values are shown, and neither is the baseline."""
        odd = {name: report(name, **{"packages.torch": "2.12.1"}) for name in ("n02", "n04")}
        answer = verdict(fleet(4, **odd))
        values = answer.cohorts[0].undecided[0]

        assert (answer.exit_status, drift(answer)) == (1, {})
        assert {value.nodes for value in values.others} == {("n01", "n03"), ("n02", "n04")}

    def test_a_fact_of_each_nodes_own_hides_no_other(self) -> None:
        """All fingerprints differ; the vote is per fact."""
        nodes = [report(f"n{number:02d}", driver=f"580.{number}") for number in range(20)]
        nodes[7] = report("n07", driver="580.7", **{"packages.triton": "3.2.0"})

        assert drift(verdict(nodes)) == {("n07",): (("packages.triton", "3.6.0", "3.2.0"),)}

    def test_partitions_are_not_held_against_each_other(self) -> None:
        """H100 and H200 are two cohorts."""
        other = [report(f"h{number}", gpu="NVIDIA H200", **{"packages.torch": "2.12.1"}) for number in range(3)]
        for one in other:
            one["cohort"] |= {"gpu": ["NVIDIA H200"], "partition": "h200"}
        answer = verdict(fleet(3) + other)

        assert (answer.exit_status, len(answer.cohorts)) == (0, 2)

    def test_a_node_that_sees_no_gpu_is_not_alone(self) -> None:
        """It is compared with those it should be like."""
        odd = report("n02", gpu=None, compute_capability=None, gpu_count=0)
        odd["cohort"] |= {"gpu": [], "compute_capability": [], "gpu_count": 0}

        assert list(drift(verdict(fleet(3, n02=odd)))) == [("n02",)]

    def test_another_python_in_the_same_folder(self) -> None:
        """The environment's id is another then; the folder is what nodes have in common."""
        odd = report("n02", python="3.11")
        odd["environment"]["id"] = odd["cohort"]["environment"] = "0123456789"

        assert drift(verdict(fleet(3, n02=odd))) == {("n02",): (("python", "3.12", "3.11"),)}

    def test_a_folder_that_names_its_node(self) -> None:
        """/local/n01/env and /local/n02/env are one environment."""
        nodes = fleet(3, n02=report("n02", **{"packages.torch": "2.12.1"}))
        for one in nodes:
            one["environment"]["prefix"] = f"/local/{one['node']['name']}/env"

        assert list(drift(verdict(nodes))) == [("n02",)]


class TestWhoIsThere:
    """Expected, missing, unreadable."""

    def test_missing_and_unexpected(self) -> None:
        """3 for the one, a note for the other."""
        answer = verdict(fleet(2), expected=("n01", "n03"))

        assert (answer.exit_status, answer.missing, answer.unexpected) == (3, ("n03",), ("n02",))

    def test_a_node_that_fails_comes_first(self) -> None:
        """1 before 3."""
        answer = verdict(fleet(2, n02=found(report("n02"))), expected=("n01", "n02", "n03"))

        assert (answer.exit_status, answer.states["n02"], answer.states["n03"]) == (1, State.FAILS, State.MISSING)

    def test_nothing_came(self) -> None:
        """An empty pipe is not a healthy fleet."""
        assert verdict([]).exit_status == 3

    def test_names_with_and_without_domain(self) -> None:
        """n01.cluster is n01, where only one can be meant."""
        nodes = [report("n01.cluster"), report("n02")]

        assert verdict(nodes, expected=("n01", "n02.cluster")).exit_status == 0
        assert verdict([report("n01.here")], expected=("n01.there",)).missing == ("n01.there",)

    def test_an_unreadable_report_is_its_nodes(self) -> None:
        """It is unreadable and not missing."""
        broken = Unreadable(source="x", reason="cut off", node="n02")
        answer = verdict([report("n01"), broken], expected=("n01", "n02"))

        assert (answer.exit_status, answer.missing, answer.states["n02"]) == (3, (), State.UNREADABLE)

    def test_a_task_is_its_place_in_the_job(self) -> None:
        """Where the others' places agree with that, and not otherwise."""
        everything = gathered([Unreadable(source="x", reason="cut off", task=1)])
        for task, node in ((0, "n01"), (2, "n03")):
            everything.add(report_of(line(report(node)), source="x", task=task))
        question = Question(now=NOW, expected=("n01", "n02", "n03"))
        assert judge(everything, question).states["n02"] is State.UNREADABLE

        everything.tasks[0] = "n03"
        assert judge(everything, question).states["n02"] is State.MISSING

    def test_what_the_engine_said(self) -> None:
        """Of a missing node, folded names too."""
        said = ["srun: error: n[02-03]: tasks 1-2: Exited with exit code 70", "srun: error: n01: fine"]
        answer = verdict(fleet(1), expected=("n01", "n02"), engine_said=said)

        assert answer.missing_because == {"n02": said[0]}

    def test_what_the_engine_said_of_nobody(self) -> None:
        """It is the reason where nothing came at all."""
        busy = ["srun: error: Unable to allocate resources: Requested nodes are busy"]

        assert verdict([], expected=("n01",), engine_said=busy).missing_because == {"n01": busy[0]}
        assert verdict(fleet(1), expected=("n01", "n02"), engine_said=busy).missing_because == {}


class TestTwiceTheSame:
    """Several reports of one node."""

    def test_the_later_one_counts(self) -> None:
        """And both were there."""
        old = found(report("n01", created="2026-11-20T05:00:00+00:00"))
        answer = verdict([report("n01"), old])

        assert (answer.exit_status, answer.repeated, answer.reports) == (0, ("n01",), 2)

    def test_of_equal_age_the_worse_one(self) -> None:
        """Never healthy by chance."""
        assert verdict([report("n01"), found(report("n01"))]).exit_status == 1

    def test_two_environments(self) -> None:
        """Both count, and they are not held against each other."""
        other = report("n01", **{"packages.torch": "2.12.1"})
        other["environment"] = {"id": "other", "prefix": "/opt/other", "image": None}
        answer = verdict([*fleet(2), other, found({**other, "node": {"name": "n02", "hostname": "n02"}})])

        assert answer.repeated == ()
        assert answer.nodes_in(State.FAILS) == ("n02",)
        assert answer.nodes_in(State.FIT) == ("n01",)

    @pytest.mark.parametrize("by", ["gpus", "boot"])
    def test_two_machines_of_one_name(self, by: str) -> None:
        """Named, and not settled by whichever came last."""
        other = report("n01")
        other["volatile"] = {"boot_id": "boot-other"} if by == "boot" else {"gpu_uuids": ["GPU-other"]}
        one = report("n01")
        one["volatile"] = {key: one["volatile"][key] for key in (["boot_id"] if by == "boot" else ["gpu_uuids"])}
        answer = verdict([one, other])

        assert (answer.exit_status, answer.same_name) == (3, ("n01",))

    def test_a_restart_is_no_other_machine(self) -> None:
        """An hour later the boot is another."""
        later = report("n01", created="2026-11-21T06:00:00+00:00")
        later["volatile"] = {"boot_id": "boot-new", "gpu_uuids": []}
        first = report("n01")
        first["volatile"]["gpu_uuids"] = []

        assert verdict([first, later]).same_name == ()

    def test_deep_and_quick(self) -> None:
        """A deep report speaks for its fingerprint: what it found gates for all of it, and is told as seen on one."""
        nodes = [{**report(f"n0{number}"), "quick": True} for number in (1, 2, 3)]
        answer = verdict([*nodes, found(report("n01"))], deep_expected=("n01",))

        assert answer.nodes_in(State.FAILS) == ("n01", "n02", "n03")
        assert answer.stands_for == {"n01": ("n02", "n03")}

    def test_a_deep_examination_that_did_not_come(self) -> None:
        """The quick one alone does not make it fit."""
        answer = verdict([{**report("n01"), "quick": True}], deep_expected=("n01",))

        assert (answer.exit_status, answer.not_deep) == (3, ("n01",))

    def test_who_is_examined_in_depth(self) -> None:
        """One of each fingerprint, and every odd one."""
        odd = {name: report(name, **{"packages.torch": "2.12.1"}) for name in ("n03", "n05")}
        odd["n04"] = report("n04", driver="1")
        nodes = [{**one, "quick": True} for one in fleet(8, **odd)]
        everything = gathered(nodes)

        assert representatives(everything, judge(everything, Question(now=NOW))) == ("n01", "n03", "n04", "n05")


class TestOther:
    """Clocks, versions, reports that say little."""

    def test_a_clock_that_is_ahead(self) -> None:
        """Nobody knows how old such a report is: not known to be fit, with a maximum age or without."""
        reports = [report("n01", created="2028-11-21T07:00:00Z"), report("n02", created="yesterday"), report("n03")]

        for age in (None, timedelta(hours=6)):
            answer = verdict(reports, max_age=age)
            assert [node for node, _ in answer.skewed] == ["n01", "n02"]
            assert answer.states == {"n01": State.UNSURE, "n02": State.UNSURE, "n03": State.FIT}
            assert answer.exit_status == 3

    def test_a_report_without_a_fingerprint(self) -> None:
        """It cannot be compared: not plainly fit."""
        old = report("n01")
        del old["fingerprint"]
        answer = verdict([old, report("n02")])

        assert (answer.exit_status, answer.without_fingerprint) == (3, ("n01",))

    def test_an_examination_that_did_not_come_about(self) -> None:
        """Its report says why."""
        failed = report("n01")
        failed["summary"]["exit_status"] = 70
        failed["failure"] = {"what": "a bug of attn-doctor", "about": "", "hint": ""}
        answer = verdict([failed, report("n02")])

        assert (answer.exit_status, answer.unexamined) == (3, (("n01", "a bug of attn-doctor"),))

    def test_an_error_gates_whatever_the_status_says(self) -> None:
        """A report that claims 0 beside an error is not believed."""
        odd = found(report("n01"))
        odd["summary"]["exit_status"] = 0

        assert verdict([odd]).exit_status == 1

    def test_what_gated_on_the_node_gates(self) -> None:
        """A warning where it was asked to fail on warnings; and a status of 1 that nothing explains."""
        asked = found(report("n01"), severity="warning")
        asked["summary"]["exit_status"] = 1
        unexplained = report("n02")
        unexplained["summary"]["exit_status"] = 1
        answer = verdict([asked, unexplained, found(report("n03"), severity="warning")])

        assert answer.nodes_in(State.FAILS) == ("n01", "n02")
        assert {one.nodes for one in answer.failing} == {("n01",), ("n02",)}

    def test_accepted_findings_do_not_gate(self) -> None:
        """Somebody lives with them."""
        known = found(report("n01"))
        known["findings"][0]["accepted"] = {"id": "x", "reason": "known", "expires": "", "subject": ""}
        known["summary"]["exit_status"] = 0

        assert verdict([known]).exit_status == 0

    @pytest.mark.parametrize(
        ("fact", "gpus", "status"),
        [
            ("packages.torch", True, 3),
            ("packages.torch", False, 3),
            ("gpu_count", False, 3),
            ("driver", True, 3),
            ("driver", False, 0),
            ("packages.flash-attn", True, 0),
        ],
    )
    def test_what_no_node_could_look_at(self, fact: str, *, gpus: bool, status: int) -> None:
        """Unknown alike on all nodes is no agreement: it is named, and where it decides nobody is fit by it."""
        blind = {} if gpus else {"gpu": [], "compute_capability": [], "gpu_count": 0}
        reports = [report(name, **{fact: {"unknown": f"it hung on {name}"}}) for name in ("n01", "n02")]
        answer = verdict({**one, "cohort": {**one["cohort"], **blind}} for one in reports)
        named = [
            words for one in sections(answer, fold) if one.title == "unknown on every node" for _, words in one.lines
        ]

        assert answer.exit_status == status
        expected = [] if (fact, gpus) == ("driver", False) else [f"{fact} could not be looked at: it hung on n01"]
        assert named == expected

    @pytest.mark.parametrize(("asked", "status"), [(False, 0), (True, 3)])
    def test_no_node_sees_a_gpu(self, asked: bool, status: int) -> None:
        """If GPUs were requested, no node is fit; otherwise the nodes are listed."""
        blind = {"gpu": [], "compute_capability": [], "gpu_count": 0}
        reports = [{**report(name), "cohort": {**report(name)["cohort"], **blind}} for name in ("n01", "n02")]
        answer = verdict(reports, gpus_asked=asked)

        assert (answer.exit_status, answer.without_gpu) == (status, ("n01", "n02"))
        assert verdict(fleet(2), gpus_asked=True).exit_status == 0

    def test_no_torch_is_told(self) -> None:
        """The nodes are listed, so that "fit" is not read as "attention runs there"."""
        reports = [report("n01", **{"packages.torch": None}), report("n02", **{"packages.torch": None})]
        answer = verdict(reports)

        assert (answer.exit_status, answer.without_torch) == (0, ("n01", "n02"))
        said = str([*sections(answer, fold)])
        assert "('n[01-02]', 'no torch in its environment: nothing here says that attention would run')" in said
        assert verdict(fleet(2)).without_torch == ()


class TestGolden:
    """A golden file beats the vote."""

    def made(self, reports: list[dict[str, Any]], tmp_path: Any) -> golden.Golden:
        file = tmp_path / "golden.json"
        file.write_text(golden.make_golden(gathered(reports), cohort_by=COHORT_BY, created="now").text)
        return golden.read(file)

    def test_all_wrong_together(self, tmp_path: Any) -> None:
        """No vote would notice."""
        expected = self.made(fleet(3), tmp_path)
        wrong = [report(f"n0{number}", **{"packages.torch": "2.12.1"}) for number in (1, 2, 3)]

        assert verdict(wrong).exit_status == 0
        answer = verdict(wrong, golden=expected.cohorts, cohort_by=expected.cohort_by)
        assert (answer.exit_status, drift(answer)) == (
            1, {("n01", "n02", "n03"): (("packages.torch", "2.13.0+cu130", "2.12.1"),)}
        )  # fmt: skip

    def test_as_it_was(self, tmp_path: Any) -> None:
        """The nodes it was made of are fit, and so is a fact that is absent now as then."""
        expected = self.made(fleet(3), tmp_path)

        assert verdict(fleet(5), golden=expected.cohorts).exit_status == 0

    def test_something_new(self, tmp_path: Any) -> None:
        """A fact that the file does not have is a difference."""
        expected = self.made(fleet(3), tmp_path)
        more = [report(f"n0{number}", **{"env.NCCL_NEW": "1"}) for number in (1, 2)]

        assert drift(verdict(more, golden=expected.cohorts)) == {("n01", "n02"): (("env.NCCL_NEW", "absent", "1"),)}

    def test_a_cohort_it_does_not_know(self, tmp_path: Any) -> None:
        """Not fit by default."""
        expected = self.made(fleet(3), tmp_path)
        other = report("h1")
        other["cohort"]["gpu"] = ["NVIDIA H200"]

        assert verdict([other], golden=expected.cohorts).exit_status == 3

    def test_no_majority_is_no_expectation(self) -> None:
        """It is left out and named."""
        odd = report("n02", **{"packages.torch": "2.12.1"})
        made = golden.make_golden(gathered([report("n01"), odd]), cohort_by=COHORT_BY, created="now")

        assert made.undecided == ("packages.torch",)
        assert "packages.torch" not in json.loads(made.text)["cohorts"][0]["facts"]


#: A node: what it has of three critical facts and one benign, whether it fails, how often it reports.
_ODDITY = st.fixed_dictionaries(
    {},
    optional={
        "packages.torch": st.sampled_from(["2.12.1", None, {"unknown": "x"}]),
        "packages.triton": st.sampled_from(["3.2.0", None]),
        "gpu_count": st.sampled_from([7, {"unknown": "y"}]),
        "driver": st.sampled_from(["570", None]),
    },
)


@st.composite
def fleets(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Up to 9 nodes, some odd, some ill, some reporting twice."""
    reports = []
    for number in range(draw(st.integers(1, 9))):
        odd = draw(st.one_of(st.just({}), st.just({}), _ODDITY))
        # Each node has its own reason for what it could not look at.
        one = report(
            f"n{number}",
            **{
                name: {"unknown": f"reason {number}"} if isinstance(value, dict) else value
                for name, value in odd.items()
            },
        )
        if draw(st.integers(0, 4)) == 0:
            one = found(one, severity=draw(st.sampled_from(["error", "warning"])))
        reports.append(one)
        if draw(st.integers(0, 5)) == 0:
            again = report(f"n{number}", created=f"2026-11-21T05:00:0{draw(st.integers(0, 2))}+00:00")
            reports.append(again)
    return reports


@given(fleets(), st.randoms(use_true_random=False))
def test_the_order_of_reports_makes_no_difference(reports: list[dict[str, Any]], chance: Any) -> None:
    """Nodes answer as they will."""
    other = list(reports)
    chance.shuffle(other)

    assert verdict(reports) == verdict(other)


@given(fleets())
def test_one_more_fit_node_makes_no_other_unfit(reports: list[dict[str, Any]]) -> None:
    """A copy of a fit node under a new name: it is fit, and whoever was fit stays so."""
    before = verdict(reports)
    fit = before.nodes_in(State.FIT)
    once = [node for node in fit if node not in before.repeated]
    if not once:
        return
    like = next(one for one in reports if one["node"]["name"] == once[0])
    more = report("another", **like["fingerprint"]["facts"])
    after = verdict([*reports, more])

    assert after.states["another"] is State.FIT
    assert set(fit) <= set(after.nodes_in(State.FIT))


@given(st.lists(_ODDITY.filter(bool), max_size=6), st.integers(7, 12))
def test_every_planted_oddity_is_found_and_none_invented(oddities: list[dict[str, Any]], fit: int) -> None:
    """As long as most nodes are as they should be."""
    nodes = [report(f"odd{number}", **oddity) for number, oddity in enumerate(oddities)]
    answer = verdict([*nodes, *(report(f"fit{number}") for number in range(fit))])
    told = {
        (node, fact)
        for cohort in answer.cohorts
        for group in (*cohort.drifting, *cohort.benign)
        for node in group.nodes
        for fact, _, _ in group.differences
    }
    told |= {
        (node, one.fact)
        for cohort in answer.cohorts
        for one in cohort.uncompared
        for value in one.unknown
        for node in value.nodes
    }

    assert told == {(f"odd{number}", fact) for number, oddity in enumerate(oddities) for fact in oddity}
    assert {f"fit{number}" for number in range(fit)} <= set(answer.nodes_in(State.FIT))


def test_an_old_report_proves_nothing_today() -> None:
    """A node that died since keeps its last report in the folder: with --max-age it is not known to be fit."""
    reports = fleet(3, n02=report("n02", created=(NOW - timedelta(days=40)).isoformat()))
    answer = verdict(reports, max_age=timedelta(hours=6))

    assert answer.states == {"n01": State.FIT, "n02": State.UNSURE, "n03": State.FIT}
    assert answer.exit_status == 3
    assert [node for node, _ in answer.old] == ["n02"]

    told = verdict(reports)
    assert (told.exit_status, [node for node, _ in told.old]) == (0, ["n02"])
    assert any("last examined on" in words for one in sections(told, fold) for _, words in one.lines)


def test_a_younger_report_takes_the_old_ones_place() -> None:
    """Of two reports of one environment the newer one says when it was last examined."""
    old = report("n01", created=(NOW - timedelta(days=2)).isoformat())
    answer = verdict([{**old, "quick": True}, report("n01"), report("n02")], max_age=timedelta(hours=6))

    assert (answer.exit_status, answer.old) == (0, ())


@pytest.mark.parametrize(
    "change", [{"assumed": ["gpu.0.compute_capability"]}, {"command": "trace"}], ids=["as if", "another command"]
)
@pytest.mark.parametrize("ill", [False, True])
def test_what_is_supposed_is_not_what_is_there(change: dict[str, Any], ill: bool) -> None:
    """A report that judges as if says neither that its node is fit nor that it fails, and has no vote."""
    supposed = report("n02", **{"packages.torch": "2.0.0"})
    answer = verdict(fleet(3, n02={**(found(supposed) if ill else supposed), **change}))

    assert answer.states == {"n01": State.FIT, "n02": State.UNSURE, "n03": State.FIT}
    assert answer.exit_status == 3
    assert not answer.failing
    assert not drift(answer)


@pytest.mark.parametrize("limit", [{"limited_to": ["torch"]}, {"left_out": ["x-transformers"]}])
class TestLimited:
    """A report of `check --only` or `--skip`."""

    def test_it_proves_no_fit_node(self, limit: dict[str, Any]) -> None:
        """What was left out is not healthy by default; what it found is found, and its facts are compared."""
        whole = fleet(3)
        assert verdict([*whole[:2], {**whole[2], **limit}]).states["n03"] is State.UNSURE
        assert verdict([*whole[:2], {**found(whole[2]), **limit}]).states["n03"] is State.FAILS
        odd = {**report("n03", **{"packages.torch": "2.0.0"}), **limit}
        assert verdict([*whole[:2], odd]).states["n03"] is State.DRIFTS

    @pytest.mark.parametrize("quick", [False, True])
    def test_it_hides_no_full_one(self, limit: dict[str, Any], quick: bool) -> None:
        """Whether it comes later or in depth; and beside a full one that is fit it takes nothing away."""
        later = {**report("n01", created="2026-11-21T05:00:20+00:00"), **limit}
        ill = {**found(report("n01")), "quick": quick}
        for order in ([ill, later], [later, ill]):
            assert verdict(order).exit_status == 1
            assert [one.finding.id for one in verdict([ill, found(later, "torch-ill")]).failing] == [
                "torch-ill", "x-transformers-rotary-fp32",
            ]  # fmt: skip
        assert verdict([{**report("n01"), "quick": quick}, later]).exit_status == 0

    def test_a_full_one_ends_what_it_found(self, limit: dict[str, Any]) -> None:
        """The full examination looked for that as well."""
        before = {**found(report("n01", created="2026-11-21T04:00:00+00:00")), **limit}
        assert verdict([before, report("n01")]).exit_status == 0


def test_a_golden_file_holds_lists(tmp_path: Path) -> None:
    """What `fleet golden` writes `fleet merge --golden` reads, whatever the facts are; a list that differs is drift."""
    arches = ["sm_80", "sm_90"]
    made = golden.make_golden(
        gathered(report(f"n{number}", **{"torch.arch_list": arches}) for number in range(3)),
        cohort_by=COHORT_BY,
        created="",
    )
    file = tmp_path / "golden.json"
    file.write_text(made.text)
    reports = [report("n1", **{"torch.arch_list": arches}), report("n2", **{"torch.arch_list": ["sm_80"]})]
    answer = verdict(reports, golden=golden.read(file).cohorts)

    assert list(drift(answer)) == [("n2",)]


class TestKernels:
    """Trials of attention kernels are each node's own."""

    @staticmethod
    def tried(name: str, *, ran: bool = True) -> dict[str, Any]:
        return {**report(name), "kernels": {"format": "kernels/1", "ran": ran}}

    def test_where_they_were_run(self) -> None:
        """Nodes that ran them, nodes on which none ran, and nodes that were not asked are told apart."""
        answer = verdict([self.tried("n01"), self.tried("n02", ran=False), report("n03")])
        told = {words for one in sections(answer, fold) for _, words in one.lines}

        assert answer.kernels == (("ran", ("n01",)), ("none ran", ("n02",)), ("not asked for", ("n03",)))
        assert any("and none was run" in words for words in told)
        assert json.loads(dumps(answer, doctor_version="1"))["kernels"]["ran"] == ["n01"]

    def test_nobody_asked(self) -> None:
        """Then nothing is said of them."""
        answer = verdict(fleet(2))

        assert answer.kernels == ()
        assert "kernels" not in json.loads(dumps(answer, doctor_version="1"))

    @pytest.mark.parametrize(
        ("finding", "nodes"), [("gpu-xid", ("n01",)), ("kernel-wrong-result", ("n01", "n02", "n03"))]
    )
    def test_a_sick_gpu_is_one_nodes(self, finding: str, nodes: tuple[str, ...]) -> None:
        """A node speaks for those of its fingerprint in what software does, not in what its own GPU does."""
        quick = [{**report(name), "quick": True} for name in ("n01", "n02", "n03")]
        answer = verdict([*quick, found(self.tried("n01"), finding)])

        assert [one.nodes for one in answer.failing] == [nodes]
