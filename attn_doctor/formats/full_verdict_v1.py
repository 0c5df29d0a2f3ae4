"""attn-doctor/full-verdict/v1: a full examination's outcome, as JSON."""

from __future__ import annotations

import json
from typing import Any

from attn_doctor.machine.printable import json_text
from attn_doctor.model.full_verdict import FullFinding, FullVerdict

SCHEMA = "attn-doctor/full-verdict/v1"
_WIDTH = 400


def to_json(verdict: FullVerdict) -> dict[str, Any]:
    """The verdict as JSON values."""
    return {
        "schema": SCHEMA,
        "content": verdict.content,
        "node": verdict.node,
        "created": verdict.created,
        "prefix": verdict.prefix,
        "compute_capability": list(verdict.compute_capability),
        "exit_status": verdict.exit_status,
        "findings": [{"id": one.id, "severity": one.severity, "title": one.title} for one in verdict.findings],
        "doctor_version": verdict.doctor_version,
    }


def dumps(verdict: FullVerdict) -> str:
    """The verdict as JSON text."""
    return json_text(to_json(verdict), compact=True) + "\n"


def loads(text: str | bytes) -> FullVerdict:
    """Reads a verdict. Raises ValueError when it is none."""
    try:
        written = json.loads(text)
        if written["schema"] != SCHEMA:
            raise ValueError("another format")
        return from_json(written)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def from_json(written: Any) -> FullVerdict:
    """The reverse of `to_json`. Raises KeyError, TypeError or ValueError when it is invalid."""
    status = written["exit_status"]
    if isinstance(status, bool) or not isinstance(status, int):
        raise ValueError("its exit status is no number")
    return FullVerdict(
        content=_text(written["content"]),
        node=_text(written["node"]),
        created=_text(written["created"]),
        prefix=_text(written["prefix"]),
        compute_capability=tuple(_text(one) for one in written["compute_capability"]),
        exit_status=status,
        findings=tuple(
            FullFinding(id=_text(one["id"]), severity=_text(one["severity"]), title=_text(one["title"]))
            for one in written["findings"]
        ),
        doctor_version=_text(written["doctor_version"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a value is no text")
    return value[:_WIDTH]
