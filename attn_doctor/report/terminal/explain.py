"""The page of `explain`: the cause first, then the log's own text, then unknown facts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import IO

from rich.text import Text

from attn_doctor.diagnose.log.error_lines import says_an_error, says_what_failed
from attn_doctor.machine import faults
from attn_doctor.machine.own_command import as_typed
from attn_doctor.model.facts import Origin
from attn_doctor.model.findings import OpenQuestion
from attn_doctor.model.report import Report
from attn_doctor.report.language import say, say_filled
from attn_doctor.report.terminal.answer import MOST_LINES, answer, hidden
from attn_doctor.report.terminal.console import ReportConsole
from attn_doctor.report.terminal.report import Writer, unwritten
from attn_doctor.report.words import verdict
from attn_doctor.report.words.short import shortened

#: Facts that a question can be answered with, in words that a person can type.
_EXAMPLES = {"compute_capability": "7.5", "version": "2.3.0"}
_MOST_LOGS = 3
#: Lines of the question that is open and of the verdict.
_MOST_TAIL = 4
#: Characters of a message that is not known, where others of the log are.
_UNKNOWN_BESIDE = 80
#: Troubles that are near, beside a finding.
_NEAR_BESIDE = 2


def write(report: Report, stream: IO[str], *, verbose: bool) -> None:
    """Writes the explanation; without `verbose`, as much as fits on a screen."""
    console = ReportConsole(stream)
    if report.diagnosis.findings and not verbose:
        _in_short(report, console)
        return
    console.print(Text(_head(report), style="bold"), no_wrap=True, overflow="ignore", crop=False)
    console.print(_judged_by(report))
    for line in _leading(report):
        console.print(line)
    for log in report.logs:
        if log.note:
            console.print(f"{log.name}: {log.note}")
    console.print()
    out = Writer(console, verbose=verbose)
    for finding in report.diagnosis.findings:
        part = f'section "finding {finding.id}" of the report'
        faults.survive(part, partial(out.finding, finding), partial(unwritten, console))
    for question in report.diagnosis.open_questions:
        console.print(Text(_asked(question), style="magenta"))
    if report.diagnosis.open_questions:
        console.print()
    if verbose:
        console.print(
            say(
                "looked for the texts of {number} recipes; `{command}` lists them",
                number=len(report.looked_for),
                command=as_typed("attn-doctor recipes list"),
            )
        )
        console.print()
    for line in _verdict(report):
        console.print(line)
    _write_near(_near(report), console)
    for line in verdict.own_faults(report):
        console.print(line)


def _in_short(report: Report, console: ReportConsole) -> None:
    """The findings and their basis, in `MOST_LINES` lines unless parts of attn-doctor failed."""
    head = [_head(report), _judged_by(report), *_leading(report)]
    note = next((console.broken(f"{log.name}: {log.note}", console.width) for log in report.logs if log.note), [])
    question = next((_asked(one) for one in report.diagnosis.open_questions), "")
    more = hidden(report.diagnosis.findings)
    near = _near(report)[: _NEAR_BESIDE + 1]
    tail = [*([question] if question else []), *_verdict(report)[: 1 if question or near else 2]]
    tail[0] = f"{tail[0]} {more}".rstrip()
    for line in head:
        console.print(line, no_wrap=True, overflow="ellipsis")
    for part in note[:_MOST_TAIL]:
        console.whole(part)
    lines = [line for text in tail for line in console.broken(text, console.width)][: _MOST_TAIL - len(near)]
    room = MOST_LINES - len(head) - len(note[:_MOST_TAIL]) - len(lines) - len(near)
    faults.survive(
        "section of the findings of the report",
        partial(answer, report.diagnosis.findings, console, room=room),
        partial(unwritten, console),
    )
    console.print(Text("\n").join(lines))
    _write_near(near, console)
    for text in verdict.own_faults(report):
        console.print(text)


def _near(report: Report) -> list[str]:
    """Troubles whose words are near, one a line, behind a line that says what they are; empty where there are none."""
    if not report.nearest:
        return []
    command = as_typed("attn-doctor explain ID")
    wide = max(len(one.id) for one in report.nearest)
    return [
        say("Nearest by its words, not judged; `{command}` says more of one:", command=command),
        *(f"  {one.id:{wide}}  {one.title}" for one in report.nearest),
    ]


def _write_near(lines: Sequence[str], console: ReportConsole) -> None:
    if lines:
        console.whole(Text(lines[0]))  # its command is typed as it stands
    for line in lines[1:]:
        console.print(Text(line), no_wrap=True, overflow="ellipsis")


def _head(report: Report) -> str:
    shown = [
        say("{name} ({lines} line{s})", name=say(log.name), lines=log.lines, s="s" if log.lines != 1 else "")
        for log in report.logs[:_MOST_LOGS]
    ]
    more = len(report.logs) - len(shown)
    return say(
        "attn-doctor {doctor_version} read {shown}", doctor_version=report.doctor_version, shown=", ".join(shown)
    ) + (say(" and {more} more log{s}", more=more, s="s" if more != 1 else "") if more else "")


def _judged_by(report: Report) -> str:
    assumed = [str(fact.name) for fact in report.facts.values() if fact.origin is Origin.ASSUMED]
    words = []
    because = say_filled(report.examined.because)
    if report.examined.python:
        words.append(
            say(
                "the facts of {python} ({because})",
                python=report.examined.python,
                because=say_filled(report.examined.because),
            )
        )
    elif report.examined.because:
        words.append(because)
    if assumed:
        words.append(say("what was assumed ({assumed})", assumed=", ".join(assumed)))
    return say("judged by the text itself{more}{words}", more=", " if words else "", words=say(" and ").join(words)) + (
        "" if words else say("; no machine was looked at (--here looks at this node)")
    )


def _asked(question: OpenQuestion) -> str:
    if not question.undecided:
        return say(
            "open: the text alone does not prove {recipe}; its page says what would.",
            recipe=question.recipe,
        )
    facts = list(dict.fromkeys(str(fact.name) for fact in question.undecided))
    fact = next((name for name in facts if name.startswith("gpu.")), facts[0])
    spelled = fact.replace("gpu.0.", "gpu.")
    example = _EXAMPLES.get(spelled.rpartition(".")[2], "VALUE")
    depends = ", ".join(name.replace("gpu.0.", "gpu.") for name in facts)
    # A number in an example reads like a proposal: of two rival causes each would be given the same one.
    said = (
        say("Name the GPU that wrote the log, as in --gpu t4 or --gpu sm_75")
        if spelled == "gpu.compute_capability"
        else say("Say it with --assume {spelled}={example}", spelled=spelled, example=example)
    )
    return say(
        "open: whether it is {recipe} depends on {depends}. {said}, or run this on that node with --here.",
        recipe=question.recipe,
        depends=depends,
        said=said,
    )


def _leading(report: Report) -> list[str]:
    """An error line that nothing knows: it is said first where families alone answer, and of other words."""
    findings = report.diagnosis.findings
    unknown = next((log for log in report.logs if log.unknown and says_an_error(log.unknown)), None)
    known = any(says_what_failed(place.note or "") for one in findings for place in one.locations)
    if unknown is None or known or not findings or not all(one.family for one in findings):
        return []
    return [
        say(
            "not known here: {name}:{unknown_line}: {unknown}",
            name=unknown.name,
            unknown_line=unknown.unknown_line,
            unknown=shortened(unknown.unknown, _UNKNOWN_BESIDE),
        )
    ]


def _verdict(report: Report) -> list[str]:
    findings = report.diagnosis.findings
    unknown = [log for log in report.logs if log.unknown]
    failures = sum(log.failures for log in report.logs)
    lines = []
    if findings:
        places = {(finding.locations[0].file, finding.locations[0].line) for finding in findings if finding.locations}
        if len(places) == 1 and len(findings) > 1:
            lines.append(
                say("One message, {findings} possible causes, the most probable first.", findings=len(findings))
            )
        elif 1 < len(places) < len(findings):
            lines.append(
                say(
                    "{places} messages, {findings} possible causes; of one message the most probable first.",
                    places=len(places),
                    findings=len(findings),
                )
            )
        else:
            lines.append(verdict.counted(report) + say("."))
    else:
        lines.append(
            say(
                "nothing known about this here. Troubles of attention, of what trains and serves with it, and of "
                "what these stand on are looked for; others may be in it."
            )
        )
    if unknown and (not findings or failures) and not _leading(report):
        log = unknown[-1]
        lines.append(
            say(
                "not known here: {name}:{unknown_line}: {unknown}",
                name=log.name,
                unknown_line=log.unknown_line,
                unknown=log.unknown[:200] if not findings else shortened(log.unknown, _UNKNOWN_BESIDE),
            )
        )
    if not findings and not failures:
        lines.append(say("No error line was recognised in it."))
    return lines
