"""Findings in attn-doctor/report/v1."""

from __future__ import annotations

from typing import Any

from attn_doctor.formats.facts_v1 import check_types, fact_from_json, named_fact_to_json
from attn_doctor.model import recipe_pages
from attn_doctor.model.findings import (
    Acceptance,
    Finding,
    Location,
    Remedy,
    Safety,
    Severity,
)
from attn_doctor.model.remedies import KINDS, Advise, ProposedAction, action_from, settings_of


def to_json(finding: Finding) -> dict[str, Any]:
    """The finding as a report holds it, with its symptoms."""
    return {
        "id": finding.id,
        "aliases": list(finding.aliases),
        "severity": finding.severity.value,
        "title": finding.title,
        "certainty": finding.certainty,
        "library": finding.library,
        "subjects": list(finding.subjects),
        "what": finding.what,
        "why": finding.why,
        "known_problems": finding.known_problems,
        "locations": [{"file": one.file, "line": one.line, "note": one.note} for one in finding.locations],
        "evidence": [named_fact_to_json(fact) for fact in finding.evidence],
        "remedies": [
            {
                "id": remedy.id,
                "title": remedy.title,
                "safety": remedy.safety.value,
                "why_this_safety": remedy.why_this_safety,
                "actions": [
                    {
                        "kind": one.action.kind,
                        "arguments": {
                            key: list(value) if isinstance(value, tuple) else value
                            for key, value in settings_of(one.action).items()
                        },
                        "commands": list(one.commands),
                    }
                    for one in remedy.actions
                ],
            }
            for remedy in finding.remedies
        ],
        "symptoms": [to_json(symptom) for symptom in finding.symptoms],
        "references": list(finding.references),
        "page": recipe_pages.address(finding),
        "status": finding.status,
        "rank": finding.rank,
        "family": finding.family,
        **({"by_words": True} if finding.by_words else {}),
        **({"possible": True} if finding.possible else {}),
        "origin": finding.origin,
        "accepted": None
        if finding.accepted is None
        else {
            "id": finding.accepted.id,
            "reason": finding.accepted.reason,
            "expires": finding.accepted.expires,
            "subject": finding.accepted.subject,
        },
    }


def from_json(written: dict[str, Any]) -> Finding:
    """The finding; raises KeyError, TypeError or ValueError when it is damaged."""
    accepted = written["accepted"]
    check_types(
        written, str, "id", "title", "certainty", "library", "what", "why", "known_problems", "status", "origin"
    )
    check_types(written, list, "aliases", "subjects", "references")
    for name in ("aliases", "subjects", "references"):
        check_types(dict(enumerate(written[name])), str, *range(len(written[name])))
    return Finding(
        id=written["id"],
        aliases=tuple(written["aliases"]),
        severity=Severity(written["severity"]),
        title=written["title"],
        certainty=written["certainty"],
        library=written["library"],
        subjects=tuple(written["subjects"]),
        what=written["what"],
        why=written["why"],
        known_problems=written["known_problems"],
        locations=tuple(Location(file=one["file"], line=one["line"], note=one["note"]) for one in written["locations"]),
        evidence=tuple(fact_from_json(one["fact"], one) for one in written["evidence"]),
        remedies=tuple(
            Remedy(
                id=one["id"],
                title=one["title"],
                safety=Safety(one["safety"]),
                why_this_safety=one["why_this_safety"],
                actions=tuple(map(_read_action, one["actions"])),
            )
            for one in written["remedies"]
        ),
        symptoms=tuple(from_json(one) for one in written["symptoms"]),
        references=tuple(written["references"]),
        status=written["status"],
        rank=written["rank"],
        family=written.get("family") is True,  # older reports have no such key
        by_words=written.get("by_words") is True,
        possible=written.get("possible") is True,
        origin=written["origin"],
        accepted=None if accepted is None else Acceptance(**accepted),
    )


def _read_action(written: dict[str, Any]) -> ProposedAction:
    """A kind of action added by a later release is read as advice: its text and commands are shown."""
    check_types(written, str, "kind")
    check_types(written, dict, "arguments")
    kind, settings = written["kind"], written["arguments"]
    return ProposedAction(
        action=action_from(kind, settings, strict=False)
        if kind in KINDS
        else Advise(text=str(settings.get("text", ""))),
        commands=tuple(written["commands"]),
    )
