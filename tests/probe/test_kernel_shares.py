"""How fast a right kernel is beside what it reached elsewhere: numbers of an H200 (torch 2.11.0+cu130; 2026-11-21)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.diagnose.judge import judge
from attn_doctor.formats import kernels_v1
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis
from attn_doctor.probe.kernels import kernel_shares
from attn_doctor.probe.kernels.known_kernels import BACKENDS
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data import measured

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("h200-shares.json").read_text())
TORCH = "2.11.0+cu130"


@pytest.fixture
def answer() -> dict[str, Any]:
    return copy.deepcopy(RECORDED)


def diagnosed(answer: dict[str, Any], torch: str | None = TORCH) -> Diagnosis:
    facts = FactSet(kernel_shares.facts(kernels_v1.from_json(answer), measured.shares(torch)))
    return judge(facts, [one for one in shelf.bundled() if one.id == "kernel-slower-than-elsewhere"])


def slowed(answer: dict[str, Any], factor: float, backend: str = "sdpa-flash") -> dict[str, Any]:
    for cell in answer["cells"]:
        if cell["backend"] == backend:
            cell["share"]["of_matmul"] *= factor
    return answer


def test_the_recorded_run_is_healthy(answer: dict[str, Any]) -> None:
    """Every kernel that was measured is judged, and none is slow."""
    facts = FactSet(kernel_shares.facts(kernels_v1.from_json(answer), measured.shares(TORCH)))

    assert facts.value("listed.share") == len(answer["cells"]) == 6
    assert diagnosed(answer).findings == ()


def test_far_less_than_elsewhere(answer: dict[str, Any]) -> None:
    """Less than half: the kernel, both numbers, where the other one comes from, and how the GPU was meanwhile."""
    findings = diagnosed(slowed(answer, 0.4)).findings

    assert len(findings) == 2  # forward, and forward and backward
    assert (
        findings[0].title
        == "SDPA flash (forward) reaches 14.3 % of a matrix product on GPU 0, and 33.0 to 35.9 % elsewhere"
    )
    for words in ("NVIDIA H200", "torch 2.11.0", "of 1980 MHz", "uncorrected memory errors", "no Xid"):
        assert words in findings[0].what, words


@pytest.mark.parametrize("factor", [0.6, 0.8, 1.0, 2.0])
def test_less_is_not_far_less(answer: dict[str, Any], factor: float) -> None:
    """A third slower, or faster, is nothing to speak of."""
    assert diagnosed(slowed(answer, factor)).findings == ()


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "wrong"},
        {"outcome": "crashed"},
        {"share": None},
        {"dtype": "float16"},
        {"backend": "flash-attn-2"},
    ],
)
def test_what_no_number_is_known_for_is_not_judged(answer: dict[str, Any], change: dict[str, Any]) -> None:
    """Nothing is said of it, and no question stays open."""
    for cell in slowed(answer, 0.1)["cells"]:
        cell.update(change)
    diagnosis = diagnosed(answer)

    assert (diagnosis.findings, diagnosis.open_questions) == ((), ())


def test_another_gpu_is_not_judged(answer: dict[str, Any]) -> None:
    """Shares hold for the compute capability on which they were measured."""
    slowed(answer, 0.1)["gpus"][0]["compute_capability"] = "8.0"

    assert diagnosed(answer).findings == ()


@pytest.mark.parametrize("torch", ["2.10.0", "2.4.1+cu121", None, "a fork's own"])
def test_another_torch_is_not_judged(answer: dict[str, Any], torch: str | None) -> None:
    """Older kernels may be slower; an unknown release may be older."""
    assert diagnosed(slowed(answer, 0.1), torch).findings == ()


@pytest.mark.parametrize("torch", ["2.11.0", "2.13.0+cu130", "2.15.0.dev20261101+cu132"])
def test_a_later_torch_is_judged(answer: dict[str, Any], torch: str) -> None:
    """No release is to be half as fast as the one before."""
    assert diagnosed(slowed(answer, 0.1), torch).findings


def test_a_busy_gpu_proves_nothing(answer: dict[str, Any]) -> None:
    """Neither one that is used, nor one of which that is not known."""
    busy = slowed(copy.deepcopy(answer), 0.1)
    busy["gpus"][0]["before"]["utilization"] = 97
    silent = slowed(answer, 0.1)
    silent["gpus"][0]["before"] = None

    assert diagnosed(busy).findings == ()
    assert diagnosed(silent).findings == ()
    assert [one.recipe for one in diagnosed(silent).open_questions] == ["kernel-slower-than-elsewhere"] * 2


def test_nothing_ran(answer: dict[str, Any]) -> None:
    """Without a run the question stays open."""
    answer.update(ran=False, cells=[], why_not="there is no GPU")

    assert [one.recipe for one in diagnosed(answer).open_questions] == ["kernel-slower-than-elsewhere"]


def test_chance_stays_far_from_the_margin() -> None:
    """Highest and lowest share that was measured differ by far less than the factor of two that is a finding."""
    table = measured.shares("2.11.0")

    assert table
    assert all(one["highest"] / one["lowest"] < 1.2 for one in table)
    assert {one["backend"] for one in table} <= set(BACKENDS)
