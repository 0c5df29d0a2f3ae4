"""attn-doctor/plan/v1: a plan as a file, to be reviewed and applied later (`fix --save-plan`, `fix --plan`)."""

from __future__ import annotations

import json
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.machine.printable import json_text
from attn_doctor.model.facts import Absent, Known, State, Unknown
from attn_doctor.model.findings import Safety
from attn_doctor.model.plans import (
    Change,
    Cured,
    FileEdit,
    Ground,
    Install,
    PackageChange,
    Plan,
    Remaining,
    Reversal,
    Splice,
    Step,
)

SCHEMA = "attn-doctor/plan/v1"


def dumps(plan: Plan) -> str:
    """The plan as JSON text; equal plans give equal texts."""
    return json_text(to_json(plan), indent=2) + "\n"


def to_json(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values."""
    return {
        "schema": SCHEMA,
        "doctor_version": plan.doctor_version,
        "python": plan.python,
        "prefix": plan.prefix,
        "configs": list(plan.configs),
        "projects": list(plan.projects),
        "steps": [
            {
                "cures": [_plain(cured) for cured in step.cures],
                "safety": step.safety.value,
                "why_this_safety": step.why_this_safety,
                "reversal": step.reversal.value,
                "why_this_reversal": step.why_this_reversal,
                "change": _change(step.change),
            }
            for step in plan.steps
        ],
        "left": [_plain(one) for one in plan.left],
        "site_folders": list(plan.site_folders),
        "rests_on": [{"fact": ground.name, **_state(ground.state)} for ground in plan.grounds],
    }


def _plain(value: Any) -> dict[str, Any]:
    return {name: _json(getattr(value, name)) for name in value.__slots__}


def _json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    return _plain(value) if isinstance(value, (PackageChange, Splice)) else value


def _change(change: Change) -> dict[str, Any]:
    kind = "edit-file" if isinstance(change, FileEdit) else "install-packages"
    return {"kind": kind, **_plain(change)}


def _state(state: State) -> dict[str, Any]:
    match state:
        case Known(value):
            return {"state": "known", "value": list(value) if isinstance(value, tuple) else value}
        case Absent(reason):
            return {"state": "absent", "reason": reason}
        case Unknown(reason, asked):
            return {"state": "unknown", "reason": reason, "asked": asked}


def loads(text: str, *, about: str) -> Plan:
    """A plan from JSON text.

    Raises BadInput when it is not valid in this format.
    """
    hint = "Give a file written by `attn-doctor fix --save-plan`."
    try:
        written = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the plan is not JSON: {error}", about=about, hint=hint) from None
    if not isinstance(written, dict) or written.get("schema") != SCHEMA:
        raise BadInput(f"the file is not a plan of the format {SCHEMA}", about=about, hint=hint)
    try:
        return _read(written)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"the plan is damaged: {type(error).__name__}: {error}", about=about, hint=hint) from None


def _read(written: dict[str, Any]) -> Plan:
    return Plan(
        doctor_version=_text(written["doctor_version"]),
        python=_text(written["python"]),
        prefix=_text(written["prefix"]),
        configs=_texts(written["configs"]),
        projects=_texts(written["projects"]),
        steps=tuple(_read_step(step) for step in written["steps"]),
        left=tuple(
            Remaining(
                finding=_text(one["finding"]),
                severity=_text(one["severity"]),
                title=_text(one["title"]),
                reason=_text(one["reason"]),
                needs_unsafe=bool(one["needs_unsafe"]),
                needs_naming=bool(one.get("needs_naming", False)),
                unavailable=bool(one.get("unavailable", False)),
                diff=_text(one.get("diff", "")),
                by_hand=_texts(one["by_hand"]),
            )
            for one in written["left"]
        ),
        grounds=tuple(Ground(name=_text(one["fact"]), state=_read_state(one)) for one in written["rests_on"]),
        site_folders=_texts(written.get("site_folders", [])),
    )


def _read_step(step: dict[str, Any]) -> Step:
    return Step(
        change=_read_change(step["change"]),
        cures=tuple(
            Cured(
                finding=_text(one["finding"]),
                subjects=_texts(one["subjects"]),
                severity=_text(one["severity"]),
                remedy=_text(one["remedy"]),
                title=_text(one["title"]),
                origin=_text(one["origin"]),
            )
            for one in step["cures"]
        ),
        safety=Safety(step["safety"]),
        why_this_safety=_text(step["why_this_safety"]),
        reversal=Reversal(step["reversal"]),
        why_this_reversal=_text(step["why_this_reversal"]),
    )


def _read_change(written: dict[str, Any]) -> Change:
    if written["kind"] == "edit-file":
        return FileEdit(
            is_list=bool(written.get("is_list", False)),
            file=_text(written["file"]),
            before=None if written["before"] is None else _text(written["before"]),
            after=_text(written["after"]),
            splices=tuple(
                Splice(start=_number(one["start"]), end=_number(one["end"]), text=_text(one["text"]))
                for one in written["splices"]
            ),
            diff=_text(written["diff"]),
            warnings=_texts(written["warnings"]),
        )
    if written["kind"] != "install-packages":
        raise ValueError(f"no kind of change: {written['kind']!r}")
    return Install(
        installer=_text(written["installer"]),
        requirements=_texts(written["requirements"]),
        no_deps=bool(written["no_deps"]),
        no_cache=bool(written["no_cache"]),
        reinstall=bool(written["reinstall"]),
        changes=tuple(
            PackageChange(
                name=_text(one["name"]),
                before=None if one["before"] is None else _text(one["before"]),
                after=_text(one["after"]),
                source=_text(one["source"]),
                sha256=_text(one["sha256"]),
            )
            for one in written["changes"]
        ),
        builds=_texts(written.get("builds", [])),
        build_environment=tuple(_pair(one) for one in written.get("build_environment", [])),
        wheels=_texts(written.get("wheels", [])),
        torch_backend=_text(written.get("torch_backend", "")),
        index_url=None if written["index_url"] is None else _text(written["index_url"]),
        no_index=bool(written["no_index"]),
        find_links=_texts(written["find_links"]),
        users_base=_text(written.get("users_base", "")),
        kept_bytes=_number(written.get("kept_bytes", 0)),
        warnings=_texts(written["warnings"]),
    )


def _read_state(written: dict[str, Any]) -> State:
    if written["state"] == "known":
        value = written["value"]
        return Known(tuple(value) if isinstance(value, list) else value)
    if written["state"] == "absent":
        return Absent(_text(written["reason"]))
    if written["state"] == "unknown":
        return Unknown(_text(written["reason"]), asked=bool(written["asked"]))
    raise ValueError(f"no state of a fact: {written['state']!r}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return value


def _pair(value: Any) -> tuple[str, str]:
    name, said = _texts(value)
    return name, said


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, got {type(value).__name__}")
    return tuple(_text(item) for item in value)
