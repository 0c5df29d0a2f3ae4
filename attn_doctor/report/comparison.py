"""The comparison of two reports: lines for people, and attn-doctor/compare/v1."""

from __future__ import annotations

from typing import Any, NamedTuple

from attn_doctor.diagnose.report_diff import Comparison
from attn_doctor.machine.printable import one_line
from attn_doctor.model.facts import Unknown
from attn_doctor.model.findings import Finding
from attn_doctor.model.fingerprint import Change, Trait
from attn_doctor.model.report import Report
from attn_doctor.report.language import recipe_text, say, to_say

SCHEMA = "attn-doctor/compare/v1"


class Compared(NamedTuple):
    """Two reports and their differences."""

    comparison: Comparison
    old: Report
    new: Report


#: The first lines, each with its own head.
HEADS = (to_say("old  {words}"), to_say("new  {words}"), to_say("note: {words}"))


def lines(compared: Compared) -> list[str]:
    """All of it, critical facts first."""
    comparison, old, new = compared
    told = [
        say(HEADS[0], words=_about(old)),
        say(HEADS[1], words=_about(new)),
        *(say(HEADS[2], words=note) for note in comparison.notes),
    ]
    for title, changes in (
        (say("critical: kernels, dtypes or communication differ"), comparison.critical),
        (say("could not be looked at on one side"), comparison.unlooked),
        (say("benign"), comparison.benign),
    ):
        if changes:
            told += ["", title, *(f"  {_change(change)}" for change in changes)]
    for title, findings in ((say("new findings"), comparison.new), (say("findings gone"), comparison.gone)):
        if findings:
            told += ["", title, *(f"  {_finding(finding)}" for finding in findings)]
    told += ["", _verdict(comparison)]
    return [line if not line else _plain(line) for line in told]


def to_json(compared: Compared) -> dict[str, Any]:
    """The same for programs: attn-doctor/compare/v1."""
    comparison, old, new = compared
    return {
        "schema": SCHEMA,
        "old": _named(old),
        "new": _named(new),
        "drifted": comparison.drifted,
        "open": comparison.open,
        "critical": [_written(change) for change in comparison.critical],
        "unlooked": [{**_written(change), "importance": change.importance.value} for change in comparison.unlooked],
        "benign": [_written(change) for change in comparison.benign],
        "new_findings": [_short(finding) for finding in comparison.new],
        "findings_gone": [_short(finding) for finding in comparison.gone],
        "notes": list(comparison.notes),
    }


def _verdict(comparison: Comparison) -> str:
    if comparison.critical:
        return say("Critical drift.")
    if comparison.drifted:
        return say("No critical fact differs, and yet there is a new error.")
    if comparison.open:
        return say("Not known: a critical fact could not be looked at on one side.")
    if comparison.new and not (comparison.looked_alike and comparison.tried_alike):
        return say("The same, as far as both looked.")
    return say("The same but for benign facts.") if comparison.benign else say("The same.")


def _about(report: Report) -> str:
    identity = report.identity
    where = f"{identity.node.name}, {identity.environment.prefix}" if identity else "?"
    return f"{report.created}  {where}" + (say(" (files only)") if report.quick else "")


def _change(change: Change) -> str:
    return f"{change.name}: {_shown(change.old)} → {_shown(change.new)}"


def _shown(trait: Trait) -> str:
    if isinstance(trait, Unknown):
        return say("could not look ({reason})", reason=trait.reason)
    return say("absent") if trait is None else str(trait)


def _finding(finding: Finding) -> str:
    on = f" ({', '.join(finding.subjects)})" if finding.subjects else ""
    return f"[{say(finding.severity.value)}] {finding.id}{on}: {recipe_text(finding.id, finding.title)}"


def _written(change: Change) -> dict[str, Any]:
    return {"fact": change.name, "old": _value(change.old), "new": _value(change.new)}


def _value(trait: Trait) -> Any:
    return {"unknown": trait.reason} if isinstance(trait, Unknown) else trait


def _short(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "severity": finding.severity.value,
        "title": finding.title,
        "subjects": [*finding.subjects],
    }


def _named(report: Report) -> dict[str, Any]:
    identity = report.identity
    return {
        "created": report.created,
        "node": identity.node.name if identity else None,
        "environment": identity.environment.id if identity else None,
        "prefix": identity.environment.prefix if identity else None,
        "quick": report.quick,
        "doctor_version": report.doctor_version,
    }


def _plain(line: str) -> str:
    # Report files may come from anybody: their escape codes must not reach the terminal.
    return " " * (len(line) - len(line.lstrip(" "))) + one_line(line)
