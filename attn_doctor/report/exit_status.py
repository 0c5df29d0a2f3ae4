"""Exit statuses, the same for every command. "Nothing found" and "could not look" never share a number."""

from __future__ import annotations

from enum import IntEnum

from attn_doctor.model.findings import Diagnosis, Severity


class Status(IntEnum):
    """What a process of ours ends with."""

    HEALTHY = 0
    FOUND = 1
    USAGE = 2
    COULD_NOT_EXAMINE = 3
    FIX_UNDONE = 4
    UNDO_FAILED = 5
    OUR_BUG = 70
    INTERRUPTED = 130
    TERMINATED = 143


def of(diagnosis: Diagnosis, *, fail_on: Severity, strict: bool) -> Status:
    """What findings and open questions come to; accepted findings do not gate."""
    gates = any(finding.severity.rank <= fail_on.rank for finding in diagnosis.findings if finding.accepted is None)
    if gates:
        return Status.FOUND
    return Status.COULD_NOT_EXAMINE if strict and diagnosis.open_questions else Status.HEALTHY
