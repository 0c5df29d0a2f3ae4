"""attn-doctor/fix/v1 and attn-doctor/undo/v1: what `fix --json` and `undo --json` print.

Keys, types and meaning stay; keys may be added. `attn-doctor schema fix` and `schema undo` print the JSON Schemas
(fix_v1.schema.json and undo_v1.schema.json in this folder).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attn_doctor.errors import AttnDoctorError
from attn_doctor.formats import plan_v1
from attn_doctor.machine.printable import json_text
from attn_doctor.model.plans import Plan
from attn_doctor.version import __version__

FIX, UNDO = "attn-doctor/fix/v1", "attn-doctor/undo/v1"


def json_schema(which: str) -> str:
    """The JSON Schema of `fix` or of `undo`, as text."""
    return Path(__file__).with_name(f"{which}_v1.schema.json").read_text()


def fix_text(
    *,
    outcome: str,
    exit_status: int,
    plan: Plan | None,
    cured: Iterable[str] = (),
    run: str | None = None,
    journal: str | None = None,
    undo: str | None = None,
    troubles: Iterable[str] = (),
    beside: Iterable[str] = (),
    notes: Iterable[str] = (),
) -> str:
    """The answer of `fix`: `outcome` says in one word how it ended, `cures` how each finding did."""
    return _text(
        {
            "schema": FIX,
            "doctor_version": __version__,
            "outcome": outcome,
            "exit_status": exit_status,
            "plan": None if plan is None else plan_v1.to_json(plan),
            "cures": list(_cures(outcome, plan, frozenset(cured))),
            "run": None if run is None else {"id": run, "journal": journal, "undo": undo},
            "troubles": list(troubles),
            "beside": list(beside),
            "notes": list(notes),
        }
    )


def _cures(outcome: str, plan: Plan | None, cured: frozenset[str]) -> Iterable[dict[str, Any]]:
    for step in () if plan is None else plan.steps:
        for one in step.cures:
            how = "fixed" if one.finding in cured else {"shown": "planned"}.get(outcome, outcome)
            yield {
                "finding": one.finding,
                "subjects": list(one.subjects),
                "remedy": one.remedy,
                "outcome": how,
                "why": "",
            }
    for left in () if plan is None else plan.left:
        needs = left.needs_unsafe or left.needs_naming or left.reason == "declined"
        how = "left-for-consent" if needs else "could-not-be-had" if left.unavailable else "left"
        yield {"finding": left.finding, "subjects": [], "remedy": None, "outcome": how, "why": left.reason}


def undo_text(
    *,
    outcome: str,
    exit_status: int,
    run: str | None = None,
    files: int = 0,
    left: Iterable[str] = (),
    found: str = "",
    troubles: Iterable[str] = (),
    runs: Iterable[dict[str, Any]] | None = None,
    pruned: Iterable[dict[str, Any]] | None = None,
) -> str:
    """The answer of `undo`; `runs` with --list, `pruned` with --prune."""
    value: dict[str, Any] = {
        "schema": UNDO,
        "doctor_version": __version__,
        "outcome": outcome,
        "exit_status": exit_status,
        "run": run,
        "files": files,
        "left": list(left),
        "found": found or None,
        "troubles": list(troubles),
    }
    if runs is not None:
        value["runs"] = list(runs)
    if pruned is not None:
        value["pruned"] = list(pruned)
    return _text(value)


def said(error: AttnDoctorError) -> tuple[str, ...]:
    """The parts of an error, as lines."""
    return tuple(line for part in (error.what, error.about, error.hint) for line in part.splitlines())


def _text(value: dict[str, Any]) -> str:
    return json_text(value, indent=2) + "\n"
