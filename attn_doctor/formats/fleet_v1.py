"""attn-doctor/fleet/v1: the verdict over all nodes, as JSON. Keys may be added later, never renamed or removed.

Node sets are lists of full names, not folded ranges.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.formats.report_v1 import text_of
from attn_doctor.machine.printable import json_pieces
from attn_doctor.model.fleet import Cohort, Difference, FailedBy, FleetVerdict, OddGroup, State, Value
from attn_doctor.quick_dataclasses import dataclass

SCHEMA = "attn-doctor/fleet/v1"


def dumps(verdict: FleetVerdict, *, doctor_version: str) -> str:
    """The verdict as JSON text; ASCII only, since names and values come from other machines."""
    return "".join(pieces(verdict, doctor_version=doctor_version))


def pieces(verdict: FleetVerdict, *, doctor_version: str) -> Iterator[str]:
    """The same in pieces."""
    yield from json_pieces(to_json(verdict, doctor_version=doctor_version), indent=2)
    yield "\n"


def to_json(verdict: FleetVerdict, *, doctor_version: str) -> dict[str, Any]:
    """The verdict as JSON values."""
    return {
        "schema": SCHEMA,
        "doctor_version": doctor_version,
        "created": verdict.created,
        "exit_status": verdict.exit_status,
        "expected": None if verdict.expected is None else list(verdict.expected),
        "reports": verdict.reports,
        "nodes": {state.value: list(verdict.nodes_in(state)) for state in State},
        "missing_because": dict(verdict.missing_because),
        "not_started": list(verdict.not_started),
        "unreadable": [
            {"source": one.source, "reason": one.reason, "node": one.node, "task": one.task}
            for one in verdict.unreadable
        ],
        "unexpected": list(verdict.unexpected),
        "findings": [_failed(one, gates=True) for one in verdict.failing]
        + [_failed(one, gates=False) for one in verdict.warned],
        "could_not_examine": [{"node": node, "reason": reason} for node, reason in verdict.unexamined],
        "deep_examination_missing": list(verdict.not_deep),
        "open_questions": [{"recipe": recipe, "nodes": list(nodes)} for recipe, nodes in verdict.open_questions],
        "cohorts": [_cohort(one) for one in verdict.cohorts],
        "several_reports": list(verdict.repeated),
        "same_name": list(verdict.same_name),
        "clock_skew": [{"node": node, "what": what} for node, what in verdict.skewed],
        "old_reports": [
            {"node": node, "created": created, "decides": verdict.age_decides and (node, created) in verdict.old}
            for node, created in sorted({*verdict.old, *verdict.aging})
        ],
        "without_gpu": list(verdict.without_gpu),
        "without_torch": list(verdict.without_torch),
        "without_fingerprint": list(verdict.without_fingerprint),
        "doctor_versions": {version: list(nodes) for version, nodes in verdict.versions},
        **({"kernels": {state: list(nodes) for state, nodes in verdict.kernels}} if verdict.kernels else {}),
        **({"slow_kernels": [{"node": node, "what": what} for node, what in verdict.slow]} if verdict.slow else {}),
        "stands_for": {node: list(others) for node, others in verdict.stands_for.items()},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A cohort as software for it is planned; None for what the verdict does not say."""

    name: str
    gpu: str | None
    """Compute capability of its oldest GPU."""
    gpu_name: str
    more_gpus: tuple[str, ...]
    driver: str | None
    """The oldest of its nodes; glibc likewise."""
    glibc: str | None
    python: str | None
    machine: str | None


def read_served(file: Path) -> tuple[Served, ...]:
    """The cohorts of a written verdict. Raises BadInput for what is none."""
    about = f"--fleet {file}"
    hint = "Name what `attn-doctor fleet merge REPORTS --json` writes."
    text = text_of(file, about=about, hint=hint)
    try:
        written = json.loads(text)
        if written["schema"] != SCHEMA:
            raise BadInput(f"that is no {SCHEMA}, but {written['schema']}", about=about, hint=hint)
        return tuple(_served(one) for one in written["cohorts"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"that is no verdict over a fleet: {error!r}", about=about, hint=hint) from None


def _served(cohort: dict[str, Any]) -> Served:
    key, serves = cohort["cohort"], cohort.get("serves", {})

    def lowest(name: str) -> str | None:
        return str(serves[name][0]) if serves.get(name) else None

    gpus = sorted(filter(None, str(key.get("compute_capability", "")).split(", ")), key=lambda one: (len(one), one))
    count = len(cohort["nodes"])
    words = ", ".join(str(value) for name, value in key.items() if value and name != "compute_capability")
    return Served(
        name=f"{words or 'all'} ({count} node{'s' * (count != 1)})",
        gpu=gpus[0] if gpus else None,
        gpu_name=str(key.get("gpu") or ""),
        more_gpus=tuple(gpus[1:]),
        driver=lowest("driver"),
        glibc=lowest("glibc"),
        python=lowest("python"),
        machine=lowest("machine"),
    )


def _failed(one: FailedBy, *, gates: bool) -> dict[str, Any]:
    finding = one.finding
    return {
        "id": finding.id,
        "severity": finding.severity,
        "title": finding.title,
        "gates": gates,
        "nodes": list(one.nodes),
    }


def _cohort(cohort: Cohort) -> dict[str, Any]:
    return {
        "cohort": dict(cohort.key),
        "quick": cohort.quick,
        "nodes": list(cohort.nodes),
        "in_depth": list(cohort.deep),
        "fingerprints": cohort.fingerprints,
        "baseline": "golden" if cohort.by_golden else "majority",
        "golden_missing": cohort.golden_missing,
        "critical_drift": [_odd(one) for one in cohort.drifting],
        "benign_drift": [_odd(one) for one in cohort.benign],
        "no_majority": [_difference(one) for one in cohort.undecided],
        "not_compared": [_difference(one) for one in cohort.uncompared],
        "unknown_everywhere": [{"fact": fact, "why": why} for fact, why in cohort.unknown],
        "unproven": cohort.unproven,
        "serves": {name: list(values) for name, values in cohort.serves},
    }


def _odd(group: OddGroup) -> dict[str, Any]:
    return {
        "nodes": list(group.nodes),
        "differences": [{"fact": fact, "baseline": old, "theirs": new} for fact, old, new in group.differences],
    }


def _difference(one: Difference) -> dict[str, Any]:
    return {
        "fact": one.fact,
        "importance": one.importance.value,
        "baseline": one.baseline,
        "values": [_value(value) for value in one.others],
        "could_not_look": [_value(value) for value in one.unknown],
    }


def _value(value: Value) -> dict[str, Any]:
    return {"value": value.shown, "nodes": list(value.nodes)}
