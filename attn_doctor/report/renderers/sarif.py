"""`sarif`: findings for code scanning and for editors, as SARIF 2.1.0.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html; what GitHub shows of it:
https://docs.github.com/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from attn_doctor.machine.printable import json_text, one_line
from attn_doctor.model import recipe_pages
from attn_doctor.model.findings import Finding, Location, Severity
from attn_doctor.model.report import Report
from attn_doctor.report.renderer import CHECK, EXPLAIN, TRACE, Manner, Media, Page, Renderer
from attn_doctor.report.words import advice, phrases, places

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
#: The folder that relative paths start from.
_ROOT = "SRCROOT"


def to_json(report: Report) -> dict[str, Any]:
    """The log with its one run."""
    findings = report.diagnosis.findings
    ids = tuple(dict.fromkeys(finding.id for finding in findings))
    first = {finding.id: finding for finding in reversed(findings)}
    driver = {
        "name": "attn-doctor",
        "semanticVersion": report.doctor_version,
        "rules": [_rule(first[one]) for one in ids],
    }
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "automationDetails": {"id": f"attn-doctor/{report.command}/"},
                "originalUriBaseIds": {_ROOT: {"uri": f"file://{quote(str(Path.cwd()))}/"}},
                "invocations": [_invocation(report)],
                "results": [_result(finding, ids.index(finding.id), report) for finding in findings],
            }
        ],
    }


def _rule(finding: Finding) -> dict[str, Any]:
    words = "\n".join(advice.plain(finding)) or finding.title or finding.id
    rule: dict[str, Any] = {
        "id": finding.id,
        "shortDescription": {"text": one_line(finding.what.partition(". ")[0] or finding.title or finding.id)},
        "fullDescription": {"text": one_line(finding.why or finding.title or finding.id)},
        "help": {"text": words},
        "properties": {"tags": [finding.library] if finding.library else []},
    }
    if uri := recipe_pages.address(finding) or next(iter(finding.references), None):
        rule["helpUri"] = uri
    return rule


def _result(finding: Finding, rule: int, report: Report) -> dict[str, Any]:
    quoted = places.quoted(finding, report.facts)
    known = places.every_place(finding)
    steps = [f"{advice.label(finding, one).capitalize()}: {one.title}" for one in finding.remedies[:1]]
    text = ". ".join(one_line(words).rstrip(".") for words in (finding.title, *steps)) + "."
    place = known[0] if known else None
    result: dict[str, Any] = {
        "ruleId": finding.id,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "partialFingerprints": {"attnDoctorFinding/v1": _fingerprint(finding, place, quoted)},
        "properties": {
            "certainty": str(finding.certainty),
            "confidence": phrases.confidence(finding),
            "subjects": list(finding.subjects),
            "evidence": [phrases.evidence(fact) for fact in finding.evidence],
        },
    }
    if known:
        result["locations"] = [_location(known[0], quoted)]
    if len(known) > 1:
        result["relatedLocations"] = [{"id": number, **_location(one, None)} for number, one in enumerate(known[1:], 1)]
    if finding.accepted is not None:
        result["suppressions"] = [
            {"kind": "external", "status": "accepted", "justification": finding.accepted.reason or "accepted"}
        ]
    return result


def _fingerprint(finding: Finding, place: Location | None, quoted: places.Quote | None) -> str:
    """The same while line numbers change: the source line stands for its number."""
    told = quoted.source if quoted else str(place.line if place else "")
    parts = (finding.id, places.shown(place.file) if place else "", told, *finding.subjects)
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:32]


def _location(place: Location, quoted: places.Quote | None) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(place.file)}
    if place.line:
        region: dict[str, Any] = {"startLine": place.line}
        if quoted is not None and quoted.line == place.line:
            region["snippet"] = {"text": quoted.source}
        elif place.note:
            region["snippet"] = {"text": place.note}
        physical["region"] = region
    return {"physicalLocation": physical}


def _artifact(file: str) -> dict[str, str]:
    near = places.below(file)
    if near is not None:
        return {"uri": quote(near), "uriBaseId": _ROOT}
    return {"uri": f"file://{quote(file)}" if file.startswith("/") else quote(file)}


def _invocation(report: Report) -> dict[str, Any]:
    told = [_notification("error", f"{one.part} failed: {one.error}") for one in report.own_faults]
    told += [_notification("note", words) for words in _open(report)]
    if report.failure is not None:
        told.append(_notification("error", f"{report.failure.what}: {report.failure.about}. {report.failure.hint}"))
    return {
        "executionSuccessful": report.failure is None and not report.own_faults,
        "exitCode": report.exit_status,
        "endTimeUtc": report.created.replace("+00:00", "Z"),
        "toolExecutionNotifications": told,
    }


def _open(report: Report) -> Iterator[str]:
    for reason, recipes in phrases.by_reason(report.diagnosis.open_questions).items():
        yield f"could not be decided: {', '.join(recipes)}: {reason}"


def _notification(level: str, words: str) -> dict[str, Any]:
    return {"level": level, "message": {"text": one_line(words)}}


def _write(report: Report, stream: IO[str], manner: Manner) -> None:
    stream.write(json_text(to_json(report), indent=2) + "\n")


RENDERER = Renderer(
    "sarif",
    suffixes=(".sarif",),
    media=Media.PROGRAM,
    pages=(Page(CHECK, _write), Page(TRACE, _write), Page(EXPLAIN, _write)),
)
