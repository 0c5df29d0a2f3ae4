"""`summary`: the report in at most 4 KiB, its first line in at most 80 characters: for a container's
termination message, a drain reason, a pager. Plain words; nothing of a terminal.

Limits: https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/ (4096 bytes),
node-problem-detector's max_output_length (80).
"""

from __future__ import annotations

from functools import partial
from typing import IO

from attn_doctor.machine import faults
from attn_doctor.machine.printable import one_line
from attn_doctor.model.findings import Finding
from attn_doctor.model.report import Report
from attn_doctor.report.renderer import CHECK, Manner, Media, Page, Renderer
from attn_doctor.report.words import verdict
from attn_doctor.report.words.short import LARGEST, shortened

FIRST_LINE = 80


def headline(report: Report) -> str:
    """The result in 80 characters: the node, the counts, and the worst finding."""
    node = report.identity.node.name if report.identity else report.facts.text("node.hostname") or "this node"
    if report.failure is not None:
        said = f"could not examine: {report.failure.what}"
    else:
        said = verdict.in_short(report)
        if report.exit_status == 3 and report.diagnosis.open_questions:
            said = f"{len(report.diagnosis.open_questions)} questions open; {said}"
    return shortened(f"attn-doctor {shortened(node, 40)}: {said}", FIRST_LINE)


def text(report: Report) -> str:
    """The whole summary, with its last line's end."""
    lines = [headline(report)]
    if report.failure is not None:
        lines += [*report.failure.about.splitlines(), *report.failure.hint.splitlines()]
    for finding in report.diagnosis.findings:
        lines += faults.lines(f"finding {finding.id}", partial(_finding, finding))
    if report.diagnosis.open_questions:
        lines.append(f"open: {', '.join(dict.fromkeys(one.recipe for one in report.diagnosis.open_questions))}")
    if report.kernels is not None:
        from attn_doctor.report.words import kernels as words

        trials = report.kernels
        lines += faults.lines("kernels", lambda: [words.brief(trials)])
    if report.own_faults:
        lines.append(f"failed in attn-doctor itself: {', '.join(fault.part for fault in report.own_faults)}")
    if report.failure is None:
        lines.append(f"examined {report.examined.python}" + (", files only" if report.quick else ""))
    if report.identity is not None:
        lines.append(
            f"environment {report.identity.environment.id}, fingerprint {report.identity.fingerprint.sha256[:16]}"
        )
    return within(lines, LARGEST)


def within(lines: list[str], most: int) -> str:
    """As many lines as fit into the number of bytes; omitted lines are counted."""
    kept, used = [], 0
    clean = [one_line(line) for line in lines]
    for number, line in enumerate(clean):
        size = len(line.encode()) + 1
        left = f"… and {len(clean) - number} more lines\n" if number < len(clean) - 1 else ""
        if used + size + len(left.encode()) > most:
            kept.append(f"… and {len(clean) - number} more lines")
            break
        kept.append(line)
        used += size
    return "\n".join(kept) + "\n"


def _finding(finding: Finding) -> list[str]:
    accepted = " (accepted)" if finding.accepted else ""
    lines = [f"{finding.severity.value} {finding.id}{accepted}: {finding.title}"]
    if finding.remedies and not finding.accepted:
        lines.append(f"fix: {finding.remedies[0].title} ({finding.remedies[0].safety.value})")
    return lines


def _write(report: Report, stream: IO[str], manner: Manner) -> None:
    stream.write(text(report))


RENDERER = Renderer("summary", media=Media.PROGRAM, collected=True, pages=(Page(CHECK, _write),))
