"""The actions of a report, as reports have had them since the first, and as a later release may write them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.formats import report_v1
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis, Finding, Remedy, Safety, Severity
from attn_doctor.model.remedies import Advise, InstallPackages, ProposedAction, SetConfig
from attn_doctor.model.report import Examined, Report

_REMEDY = Remedy(id="one", title="one", safety=Safety.SAFE)
_REPORT = Report(
    command="check",
    doctor_version="0",
    created="2026-11-22T00:00:00+00:00",
    examined=Examined(python="p", version="3.11", environment="venv", because="", others=()),
    quick=True,
    assumed=(),
    diagnosis=Diagnosis(
        findings=(Finding(id="a-trouble", severity=Severity.ERROR, title="a trouble", remedies=(_REMEDY,)),)
    ),
    exit_status=1,
    facts=FactSet(),
)


def read(*actions: dict[str, Any]) -> tuple[ProposedAction, ...]:
    written = report_v1.to_json(_REPORT)
    written["findings"][0]["remedies"][0]["actions"] = list(actions)
    report = report_v1.loads(json.dumps(written), about="the report")
    return report.diagnosis.findings[0].remedies[0].actions


def test_as_they_always_were() -> None:
    """Kind, settings and commands, in the order in which they stand."""
    written = [
        {"kind": "set-config", "arguments": {"key": "bf16", "value": "true"}, "commands": ["bf16: true"]},
        {
            "kind": "install-packages",
            "arguments": {"requirements": ["torch"], "force_reinstall": True, "torch_backend": ""},
            "commands": ["pip install torch"],
        },
    ]
    found = read(*written)

    assert [one.action for one in found] == [
        SetConfig(key="bf16", value="true"),
        InstallPackages(requirements=("torch",), force_reinstall=True, torch_backend=""),
    ]
    again = report_v1.to_json(report_v1.loads(json.dumps(_with(written)), about="the report"))
    assert json.dumps(again["findings"][0]["remedies"][0]["actions"]) == json.dumps(written)


def _with(actions: list[dict[str, Any]]) -> dict[str, Any]:
    written = report_v1.to_json(_REPORT)
    written["findings"][0]["remedies"][0]["actions"] = actions
    return written


def test_what_a_later_release_knows() -> None:
    """A kind that this one does not know is shown, and a setting that it does not know is left aside."""
    restart = {"kind": "restart-node", "arguments": {"text": "Restart it.", "how": 3}, "commands": ["reboot"]}
    more = {"kind": "set-config", "arguments": {"key": "bf16", "value": "true", "section": "a"}, "commands": []}

    assert read(restart, more) == (
        ProposedAction(action=Advise(text="Restart it."), commands=("reboot",)),
        ProposedAction(action=SetConfig(key="bf16", value="true")),
    )


@pytest.mark.parametrize(
    "action",
    [
        {"kind": "set-config", "arguments": {"key": "bf16"}, "commands": []},
        {"kind": "set-config", "arguments": {"key": "bf16", "value": 1}, "commands": []},
        {"kind": "set-config", "arguments": [], "commands": []},
        {"kind": ["set-config"], "arguments": {"key": "bf16", "value": "x"}, "commands": []},
        {"kind": "restart-node", "arguments": None, "commands": []},
    ],
)
def test_a_damaged_action(action: dict[str, Any]) -> None:
    """What cannot be one is told as damage, and raises nothing else."""
    with pytest.raises(BadInput, match="damaged"):
        read(action)
