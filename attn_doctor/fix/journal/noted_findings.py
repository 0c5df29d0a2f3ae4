"""The diagnosis before a run, in its folder: whoever takes the run up again must know what was wrong already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attn_doctor.fix.journal.journal import JournalUnusable, Run
from attn_doctor.model.findings import Diagnosis, Finding, Severity

_FILE = "before.json"


def noted(before: Diagnosis) -> Mapping[str, Any]:
    """What of a diagnosis the end of a run is held against: the file and its JSON value."""
    findings = [
        {"id": one.id, "severity": one.severity.value, "title": one.title, "subjects": list(one.subjects)}
        for one in _flat(before.findings)
    ]
    return {_FILE: findings}


def read_noted(run: Run) -> Diagnosis:
    """Reads it back. Raises JournalUnusable."""
    written = run.read(_FILE)
    try:
        return Diagnosis(
            findings=tuple(
                Finding(
                    id=one["id"],
                    severity=Severity(one["severity"]),
                    title=one["title"],
                    subjects=tuple(one["subjects"]),
                )
                for one in written
            )
        )
    except (KeyError, TypeError, ValueError) as error:
        raise JournalUnusable(f"the journal is damaged: {error!r}", about=str(run.folder / _FILE)) from None


def _flat(findings: Iterable[Finding]) -> Iterator[Finding]:
    for one in findings:
        yield one
        yield from _flat(one.symptoms)
