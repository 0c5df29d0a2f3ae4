"""Applies a site's policy to findings: accepted ones are shown but do not fail the command, gated ones become
errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from fnmatch import fnmatchcase

from attn_doctor.model.findings import Acceptance, Diagnosis, Finding, Gate, Severity
from attn_doctor.quick_dataclasses import replace


def accept(diagnosis: Diagnosis, acceptances: Iterable[Acceptance], *, today: date) -> Diagnosis:
    """The diagnosis with accepted findings marked: those fully covered by an acceptance that has not expired."""
    valid = [one for one in acceptances if not one.expires or date.fromisoformat(one.expires) >= today]
    return replace(diagnosis, findings=tuple(_marked(finding, valid) for finding in diagnosis.findings))


def without_effect(
    diagnosis: Diagnosis, acceptances: Iterable[Acceptance], *, today: date, known: frozenset[str]
) -> tuple[str, ...]:
    """Why acceptances have no effect although they seem meant to: expired, for another subject than each finding of its
    id, or with an id that is not in `known`. An acceptance without any finding is fine, since files are shared."""
    said = []
    for one in acceptances:
        met = [finding for finding in diagnosis.findings if one.id in (finding.id, *finding.aliases)]
        gating = [finding for finding in met if finding.accepted is None]
        if one.id not in known and not met:
            said.append(f"no recipe is called {one.id!r}")
        elif gating and one.expires and date.fromisoformat(one.expires) < today:
            said.append(f"{one.id} was accepted until {one.expires}, and gates again")
        elif gating and one.subject and not any(finding.accepted == one for finding in met):
            subjects = ", ".join(repr(finding.subjects[0]) for finding in gating if len(finding.subjects) == 1)
            said.append(f"{one.id} is accepted for {one.subject!r} alone; found: {subjects or 'several together'}")
    return tuple(said)


def _marked(finding: Finding, valid: list[Acceptance]) -> Finding:
    for one in valid:
        if one.id in (finding.id, *finding.aliases) and _is_about(one.subject, finding.subjects):
            return replace(finding, accepted=one)
    return finding


def _is_about(subject: str, found: tuple[str, ...]) -> bool:
    """True when the names match. A file may be accepted by the end of its path, since checkouts are in different
    folders.
    """
    if not subject or found == (subject,):
        return True
    kind, _, name = subject.partition(" ")
    return kind == "config" and len(found) == 1 and found[0].startswith("config /") and found[0].endswith(f"/{name}")


def raise_gated(diagnosis: Diagnosis, gates: Iterable[Gate]) -> Diagnosis:
    """The diagnosis in which findings named by a gate, themselves or by one of their symptoms, are errors."""
    gates = tuple(gates)
    raised = [_raised(finding, gates) for finding in diagnosis.findings]
    return replace(diagnosis, findings=tuple(sorted(raised, key=lambda one: one.severity.rank)))


def _raised(finding: Finding, gates: tuple[Gate, ...]) -> Finding:
    reasons = dict.fromkeys(_reasons(finding, gates))
    if finding.severity is Severity.ERROR or not reasons:
        return finding
    said = f"An error by the policy of this site: {'; '.join(reasons)}."
    return replace(
        finding,
        severity=Severity.ERROR,
        symptoms=tuple(_raised(one, gates) for one in finding.symptoms),
        known_problems=" ".join(filter(None, (said, finding.known_problems.strip()))),
    )


def _reasons(finding: Finding, gates: tuple[Gate, ...]) -> Iterator[str]:
    """Reasons of the gates that name the finding or one of its symptoms."""
    yield from (one.reason for one in gates if _names(one, finding))
    for symptom in finding.symptoms:
        yield from _reasons(symptom, gates)


def _names(one: Gate, finding: Finding) -> bool:
    if one.id not in (finding.id, *finding.aliases):
        return False
    return not one.subject or any(fnmatchcase(subject, one.subject) for subject in finding.subjects)
