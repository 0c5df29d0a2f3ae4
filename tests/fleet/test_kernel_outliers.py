"""A kernel that is slow on one node stands out from its peers, and scatter alone does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.fleet.kernel_outliers import slow_kernels
from attn_doctor.fleet.nodeset import fold
from attn_doctor.formats.fleet_v1 import dumps
from attn_doctor.model.policy import Policy
from attn_doctor.report.words.fleet import sections
from tests.fleet.reports import report
from tests.fleet.test_verdict import verdict

RECORDED = json.loads((Path(__file__).parents[1] / "probe" / "h200-shares.json").read_text())


def nodes(count: int, **slow: float) -> dict[str, dict[str, float]]:
    """Nodes that scatter by some percent, and slow ones."""
    return {
        name: {"flash-attn bf16 forward": slow.get(name, 0.60 + 0.004 * (number % 7))}
        for number, name in enumerate(f"n{number:02d}" for number in range(1, count + 1))
    }


def test_one_of_64() -> None:
    """It is named, with how far it is below, and its peers counted."""
    (one,) = slow_kernels(nodes(64, n42=0.42), Policy())

    assert (one.node, one.words()) == ("n42", "flash-attn bf16 forward is 31 % below its 63 peers")


@pytest.mark.parametrize("slow", [{"n03": 0.58}, {"n03": 0.9}, {}])
def test_scatter_and_faster_ones_are_not_named(slow: dict[str, float]) -> None:
    """A few percent are clocks and power caps."""
    assert slow_kernels(nodes(32, **slow), Policy()) == ()


def test_few_peers_are_no_measure() -> None:
    """Of two that differ nobody knows which is slow."""
    assert slow_kernels(nodes(2, n01=0.3), Policy()) == ()
    assert slow_kernels(nodes(4, n01=0.3), Policy()) == ()


@given(st.lists(st.floats(0.3, 0.9), min_size=5, max_size=40), st.floats(0.5, 3.0))
def test_what_is_measured_has_no_unit(shares: list[float], factor: float) -> None:
    """Named are fewer than half, all below the median; twice as fast machines give the same names."""
    some = {f"n{number}": {"k": share} for number, share in enumerate(shares)}
    named = [one.node for one in slow_kernels(some, Policy())]
    middle = sorted(shares)[len(shares) // 2]

    assert len(named) * 2 < len(shares)
    assert all(some[node]["k"] < middle for node in named)
    scaled = {node: {"k": kernels["k"] * factor} for node, kernels in some.items()}
    assert {one.node for one in slow_kernels(scaled, Policy())} ^ set(named) == set() or factor != 2.0


def test_reports_carry_it() -> None:
    """The shares of a recorded run; the slowest GPU of a node counts; nobody is unfit for it."""

    def tried(name: str, factor: float) -> dict[str, Any]:
        kernels = json.loads(json.dumps(RECORDED))
        for trial in kernels["cells"]:
            if trial.get("share"):
                trial["share"]["of_matmul"] *= factor
        return {**report(name), "kernels": kernels}

    answer = verdict([*(tried(f"n{number}", 1 + number / 500) for number in range(8)), tried("slow", 0.6)])

    assert {node for node, _ in answer.slow} == {"slow"}
    assert answer.exit_status == 0
    assert any("below its 8 peers" in words for one in sections(answer, fold) for _, words in one.lines)
    assert json.loads(dumps(answer, doctor_version="1"))["slow_kernels"][0]["node"] == "slow"
