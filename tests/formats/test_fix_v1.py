"""What `fix --json` and `undo --json` print follows the printed JSON Schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from attn_doctor.errors import BadInput
from attn_doctor.formats import fix_v1
from attn_doctor.model.plans import Install, Plan, Remaining
from attn_doctor.quick_dataclasses import replace
from attn_doctor.workflows.fix.request import FixEnding, FixResult
from tests.fix.crashing import Scene

_WITH_PLAN = [one for one in FixEnding if one not in (FixEnding.NO_RUN, FixEnding.TAKEN_BACK)]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Edits, an installation, and a finding that is left for each reason."""
    left = Remaining(finding="left", severity="warning", title="t", reason="r", by_hand=("do it",))
    kinds = (left, replace(left, needs_unsafe=True), replace(left, needs_naming=True), replace(left, unavailable=True))
    made = Scene.make(tmp_path).plan()
    return replace(made, left=kinds)


def valid(text: str, which: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    jsonschema.validate(value, json.loads(fix_v1.json_schema(which)))
    return value


@pytest.mark.parametrize(
    ("ending", "steps"),
    [
        (ending, steps)
        for ending in _WITH_PLAN
        for steps in (True, False)
        if steps is not (ending is FixEnding.NO_STEPS)
    ],
)
def test_every_ending_of_fix(plan: Plan, ending: FixEnding, steps: bool) -> None:
    """With a plan of every kind of change, and without."""
    result = FixResult(ending=ending, exit_status=0, plan=plan if steps else replace(plan, steps=()))
    written = valid(
        fix_v1.fix_text(
            outcome=result.outcome, exit_status=0, plan=result.plan, cured=result.cured, run="r", journal="j", undo="u"
        ),
        "fix",
    )

    assert {one["outcome"] for one in written["cures"]} >= {"left", "left-for-consent", "could-not-be-had"}
    assert any(isinstance(step.change, Install) for step in plan.steps)


def test_a_refusal() -> None:
    """What went wrong, with what to do, where a program reads."""
    error = BadInput("there is no such run", about="undo x", hint="Look.")

    assert valid(fix_v1.fix_text(outcome="refused", exit_status=3, plan=None, troubles=fix_v1.said(error)), "fix")
    written = valid(fix_v1.undo_text(outcome="refused", exit_status=2, troubles=fix_v1.said(error)), "undo")
    assert written["troubles"] == ["there is no such run", "undo x", "Look."]


@pytest.mark.parametrize(
    "more",
    [
        {"outcome": "undone", "run": "r", "files": 3, "left": ["f"], "found": "/x"},
        {"outcome": "nothing-to-undo"},
        {"outcome": "listed", "runs": [{"id": "r", "state": "applied", "bytes": 1, "home": "/h", "undo": "u"}]},
        {"outcome": "pruned", "pruned": [{"id": "r", "bytes": 1}]},
        {"outcome": "not-put-back", "troubles": ["x"]},
    ],
)
def test_every_ending_of_undo(more: dict[str, Any]) -> None:
    """Each as the command writes it."""
    valid(fix_v1.undo_text(**{"exit_status": 0, **more}), "undo")


@pytest.mark.parametrize("which", ["fix", "undo"])
def test_the_schema_refuses(which: str) -> None:
    """An outcome that is in no table is no answer: the schema can fail."""
    value = json.loads(fix_v1.undo_text(outcome="undone", exit_status=0)) | {"schema": f"attn-doctor/{which}/v1"}
    value["outcome"] = "so-so"
    with pytest.raises(jsonschema.ValidationError):
        valid(json.dumps(value), which)
