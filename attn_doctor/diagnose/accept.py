"""Marks findings that somebody accepted. They are still shown; they no longer gate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date

from attn_doctor.model.findings import Acceptance, Diagnosis, Finding


def accept(diagnosis: Diagnosis, acceptances: Iterable[Acceptance], *, today: date) -> Diagnosis:
    """The diagnosis with every finding marked that an acceptance covers whole and that has not expired."""
    valid = [one for one in acceptances if not one.expires or date.fromisoformat(one.expires) >= today]
    return replace(diagnosis, findings=tuple(_marked(finding, valid) for finding in diagnosis.findings))


def _marked(finding: Finding, valid: list[Acceptance]) -> Finding:
    for one in valid:
        if one.id in (finding.id, *finding.aliases) and (not one.subject or finding.subjects == (one.subject,)):
            return replace(finding, accepted=one)
    return finding
