"""`plan --fleet`: one plan for all cohorts of a merged report, or one for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.workflows.plan import PlanRequest, plan


def merged(folder: Path, *cohorts: dict[str, Any], **more: Any) -> Path:
    file = folder / "merged.json"
    file.write_text(json.dumps({"schema": "attn-doctor/fleet/v1", "cohorts": list(cohorts), **more}))
    return file


def cohort(gpu: str, capability: str, *nodes: str, python: str = "3.12", driver: str = "580.95") -> dict[str, Any]:
    return {
        "cohort": {"gpu": gpu, "compute_capability": capability, "partition": "", "environment": "/opt/env"},
        "nodes": list(nodes),
        "serves": {"driver": [driver], "glibc": ["2.35"], "machine": ["x86_64"], "python": [python]},
    }


def asked(file: Path, *wants: str) -> Any:
    return plan(PlanRequest(wants=wants, fleet=file, offline=True))


def test_one_plan_serves_all_where_there_is_one(tmp_path: Path) -> None:
    """torch for CUDA 13 has no code for a V100; the newest build that has code for both GPUs is taken."""
    file = merged(tmp_path, cohort("V100", "7.0", "a", "b"), cohort("H100", "9.0", "c", driver="570.86"))
    answer = asked(file, "torch")

    assert answer.cohort == "all nodes"
    assert answer.node.capabilities == ("7.0", "9.0")
    assert answer.node.driver == "570.86"
    assert (answer.plans[0].torch, answer.plans[0].build) == ("2.10.0", "cu128")
    assert answer.cohorts == ()
    assert answer.exit_status == 0


def test_else_one_for_each_cohort(tmp_path: Path) -> None:
    """flash-attn runs on no V100; the others have a plan all the same."""
    file = merged(tmp_path, cohort("V100", "7.0", "a"), cohort("H100", "9.0", "b"), cohort("A100", "8.0", "c"))
    answer = asked(file, "torch==2.8.0", "flash-attn")

    assert answer.plans == ()
    assert [(one.cohort, bool(one.plans)) for one in answer.cohorts] == [
        ("V100, /opt/env (1 node)", False),
        ("H100, /opt/env (1 node)", True),
        ("A100, /opt/env (1 node)", True),
    ]
    assert answer.exit_status == 1


def test_several_pythons_have_no_common_plan(tmp_path: Path) -> None:
    file = merged(tmp_path, cohort("H100", "9.0", "a"), cohort("H100", "9.0", "b", python="3.11"))
    answer = asked(file, "torch", "xformers")

    assert answer.plans == ()
    assert [one.node.python for one in answer.cohorts] == ["3.12", "3.11"]
    assert answer.exit_status == 0


def test_a_gpu_that_is_named_takes_the_place_of_the_fleets(tmp_path: Path) -> None:
    file = merged(tmp_path, cohort("V100", "7.0", "a"), cohort("H100", "9.0", "b"))

    assert plan(PlanRequest(wants=("flash-attn",), fleet=file, gpu="h100", offline=True)).plans


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{}", "no verdict over a fleet"),
        ("[1]", "no verdict over a fleet"),
        ('{"schema": "attn-doctor/report/v1"}', "attn-doctor/report/v1"),
        ('{"schema": "attn-doctor/fleet/v1", "cohorts": []}', "no cohorts"),
    ],
)
def test_what_is_no_fleet(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "merged.json"
    file.write_text(text)
    with pytest.raises(BadInput, match=says):
        asked(file, "torch")
    with pytest.raises(BadInput, match="no such file"):
        asked(tmp_path / "nothing.json", "torch")
