"""A report in part of a line; light, for `status` has to be quick."""

from __future__ import annotations

from attn_doctor.machine.printable import one_line
from attn_doctor.model.facts import Absent
from attn_doctor.model.findings import Severity
from attn_doctor.model.report import Report

LARGEST = 4096
"""Bytes: what Kubernetes keeps of a container's termination message."""


def counted(report: Report) -> str:
    """`1 error, 2 warnings`."""
    gating = [finding for finding in report.diagnosis.findings if finding.accepted is None]
    words = []
    for severity in Severity:
        number = sum(finding.severity is severity for finding in gating)
        if number:
            word = "note" if severity is Severity.INFO else severity.value
            words.append(f"{number} {word}{'s' if number > 1 else ''}")
    accepted = len(report.diagnosis.findings) - len(gating)
    if accepted:
        words.append(f"{accepted} accepted")
    return ", ".join(words) or "nothing wrong found"


def in_short(report: Report) -> str:
    """`counted` and what was found, in part of a line; that there is no torch comes first: little else was asked."""
    ids = [finding.id for finding in report.diagnosis.findings if finding.accepted is None]
    said = counted(report) + (f": {', '.join(ids)}" if ids else "")
    if report.nothing_to_examine:
        return f"nothing to examine here; {said}" if ids else "nothing to examine here"
    return f"no torch there; {said}" if without_torch(report) else said


def without_torch(report: Report) -> bool:
    """Nothing of attention was examined: there is no torch that it could run in."""
    return report.command == "check" and isinstance(report.facts.fact("torch.version").state, Absent)


def shortened(words: str, most: int) -> str:
    """At most so many characters, on one line."""
    words = one_line(words)
    return words if len(words) <= most else words[: most - 1] + "…"
