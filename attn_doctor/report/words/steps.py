"""The next steps after a report, as commands to type: repair it, read why, show it to others."""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.machine.own_command import typed
from attn_doctor.model.findings import Finding, Severity
from attn_doctor.model.remedies import Advise, InstallWheel
from attn_doctor.model.report import Report
from attn_doctor.report.language import say
from attn_doctor.report.words import places

#: Actions that no run of `fix` carries out by itself.
_BY_HAND = (Advise, InstallWheel)


def next_steps(report: Report) -> Iterator[tuple[str, str, str]]:
    """Label, command and what it does, of each; none where nothing was found."""
    findings = [one for one in report.diagnosis.findings if one.accepted is None and one.severity is not Severity.INFO]
    if not findings:
        return
    by_fix = report.foreseen is None and any(_is_done_by_fix(one) for one in findings)
    if by_fix and (report.trace is None or report.rerun):
        yield "fix", typed("fix", *_subject(report)), say("shows a plan, asks, can be undone")
    yield "why", typed("explain", findings[0].id), say("mechanism, other fixes, sources")
    if report.command == "check" and not report.limits:
        yield "share", typed("check", *_subject(report), "--format", "markdown"), say("names masked")


def _is_done_by_fix(finding: Finding) -> bool:
    return any(not isinstance(one.action, _BY_HAND) for remedy in finding.remedies for one in remedy.actions)


def _subject(report: Report) -> tuple[str, ...]:
    """The options that name the same environment or lock file, configurations, GPU and assumptions again."""
    words: list[str] = []
    words += report.rerun
    if report.foreseen is not None:
        words += ["--lock", places.below(report.foreseen.file) or report.foreseen.file]
    elif report.examined.because == "--python":
        words += ["--python", places.environment(report.examined.python)]
    for file in report.facts.subjects("config"):
        words += ["--config", places.below(file) or file]
    given = dict.fromkeys(report.facts.fact(name).how for name in report.assumed)
    words += [word for one in given if one.startswith(("--gpu ", "--assume ")) for word in one.split(" ", 1)]
    return tuple(words)
