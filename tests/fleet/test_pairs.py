"""The slow node is found by pairing it with others; its partners are not blamed."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.fleet.pairs import Measured, again, judge_pairs, measured_by, rounds_of
from attn_doctor.machine.process import Completed
from attn_doctor.model.policy import Policy, Threshold
from attn_doctor.quick_dataclasses import replace
from tests.conftest import Doctor


def names(count: int) -> list[str]:
    return [f"n{number:02d}" for number in range(1, count + 1)]


def measured(
    nodes: list[str], rounds: int, slow: dict[str, float], dead: frozenset[str] = frozenset()
) -> list[Measured]:
    """A pair is as slow as its slower half; with a dead one it does not end. Healthy ones scatter by 2 percent."""
    chaos = random.Random(7)
    found = []
    for pair in itertools.chain.from_iterable(rounds_of(nodes, rounds)):
        reached = min(slow.get(node, 20.0) for node in pair) * chaos.uniform(0.98, 1.0)
        found.append(Measured(pair=pair, gbs=None if dead & {*pair} else reached, said="srun did not answer"))
    return found


@given(count=st.integers(2, 33), rounds=st.integers(1, 40))
def test_rotation(count: int, rounds: int) -> None:
    """In each round a node is in one pair at most; nobody meets the same node twice; everybody has a partner."""
    nodes = names(count)
    found = rounds_of(nodes, rounds)

    for pairs in found:
        there = [node for pair in pairs for node in pair]
        assert len(there) == len(set(there)) == count - count % 2
    met = [frozenset(pair) for pairs in found for pair in pairs]
    assert len(met) == len(set(met))
    assert len(found) == min(rounds, count - 1 + count % 2)


@given(count=st.integers(6, 40), number=st.integers(0, 39), rounds=st.integers(2, 6), share=st.floats(0.1, 0.8))
def test_one_slow_node(count: int, number: int, rounds: int, share: float) -> None:
    """It alone is named, whichever it is."""
    nodes = names(count)
    slow = nodes[number % count]
    verdict = judge_pairs(measured(nodes, rounds + count % 2, {slow: 20 * share}), Policy())

    assert [node for node, _ in verdict.slow] == [slow]
    assert "below its peers" in verdict.slow[0][1]
    assert not verdict.silent


def test_scatter_is_nobodys_fault() -> None:
    """Some percent are not named; a site may say how many are."""
    found = measured(names(16), 4, {"n05": 18.5})

    assert judge_pairs(found, Policy()).slow == ()
    strict = Policy(thresholds=(Threshold(name="slow-pair-percent", value=5),))
    assert [node for node, _ in judge_pairs(found, strict).slow] == ["n05"]


def test_a_node_with_which_nothing_ends() -> None:
    """It is named; its partners ended with others, and are not."""
    verdict = judge_pairs(measured(names(8), 3, {}, dead=frozenset({"n03"})), Policy())

    assert [node for node, _ in verdict.silent] == ["n03"]
    assert "of 3 partners" in verdict.silent[0][1]
    assert (verdict.slow, verdict.unknown) == ((), ())


def test_where_nothing_ends_nobody_is_blamed() -> None:
    """A wrong environment is not a node's fault."""
    verdict = judge_pairs(measured(names(6), 3, {}, dead=frozenset(names(6))), Policy())

    assert (verdict.silent, verdict.best) == ((), ())
    assert verdict.unknown == tuple(names(6))


def test_few_nodes_are_no_measure() -> None:
    """Of three, one is always the slowest."""
    verdict = judge_pairs(measured(names(3), 3, {"n01": 1.0}), Policy())

    assert (verdict.few, verdict.slow) == (True, ())


def test_suspects_are_measured_again() -> None:
    """With the fastest that are no suspects, and cleared when they reach what others do."""
    found = measured(names(10), 3, {"n04": 12.0})
    verdict = judge_pairs(found, Policy())
    pairs = again(verdict)

    assert {one for one, _ in pairs} == {"n04"}
    assert "n04" not in {other for _, other in pairs}
    cleared = judge_pairs([*found, Measured(pair=pairs[0], gbs=19.9)], Policy())
    assert cleared.slow == ()


def test_half_is_slow_however_much_others_scatter() -> None:
    """On a busy network the scatter hides nobody."""
    nodes = names(8)
    reached = dict(zip(nodes, (0.03, 0.10, 0.13, 0.16, 0.20, 0.23, 0.26, 0.29), strict=True))
    verdict = judge_pairs([Measured(pair=(node, node), gbs=one) for node, one in reached.items()], Policy())

    assert [node for node, _ in verdict.slow] == ["n01"]
    assert verdict.suspects[:2] == ("n01", "n02")


def test_what_a_step_says() -> None:
    """The first process's line; without it, how srun ended and the last line that names an error."""
    done = Completed(
        arguments=("srun",), status=0, signal=None, timed_out=False, seconds=3.0, stdout="x\nAD-PAIR 12.500000\n",
        stderr="",
    )  # fmt: skip
    lost = replace(done, status=1, stdout="", stderr="RuntimeError: no route\nsrun: task 1 exited\n")

    assert measured_by(("a", "b"), done).gbs == 12.5
    assert measured_by(("a", "b"), lost).said == "srun ended with status 1: RuntimeError: no route"


def test_outside_of_a_job(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how to get one."""
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    run = doctor("fleet", "pairs", "--python", "/opt/env")

    assert run.status == 2
    assert "sbatch" in run.stderr
