"""`plain`: the text report for screen readers and braille lines: sentences in order, no columns, signs, underlines or
colours; nothing is told by its place on a line."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import IO, TYPE_CHECKING

from attn_doctor.machine import faults
from attn_doctor.machine.printable import harmless, one_line
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Finding
from attn_doctor.model.report import Report
from attn_doctor.report.language import say, say_filled, to_say
from attn_doctor.report.renderer import CHECK, EXPLAIN, TRACE, Manner, Media, Page, Renderer
from attn_doctor.report.words import advice, dtype_path, phrases, places, steps, verdict

if TYPE_CHECKING:
    from attn_doctor.model.trace import AttentionCall, Trace


def _write(report: Report, stream: IO[str], manner: Manner) -> None:
    lines = [one_line(phrases.examined(report)) + say(".")]
    if report.trace is not None:
        lines += faults.lines("trace", partial(_trace, report.trace))
    findings = report.diagnosis.findings
    for number, finding in enumerate(findings, start=1):
        part = partial(
            _finding,
            finding,
            report.facts,
            say("{number} of {findings}", number=number, findings=len(findings)),
            verbose=manner.verbose,
        )
        lines += ["", *faults.lines(f"finding {finding.id}", part)]
    if report.diagnosis.open_questions:
        lines.append("")
    for reason, recipes in phrases.by_reason(report.diagnosis.open_questions).items():
        lines.append(
            say("Not decided: {recipes}. Reason: {reason}.", recipes=", ".join(recipes), reason=one_line(reason))
        )
    lines += ["", *verdict.lines(report)]
    lines += [
        say("To {step}: {command}", step=say(_STEPS[label]), command=command)
        for label, command, _ in steps.next_steps(report)
    ]
    stream.write(harmless("".join(f"{line}\n" for line in lines)))


_STEPS = {"fix": to_say("repair it"), "why": to_say("read why"), "share": to_say("share it")}


def _finding(finding: Finding, facts: FactSet, number: str, *, verbose: bool) -> Iterator[str]:
    accepted = say(", accepted") if finding.accepted else ""
    yield say(
        "Finding {number}, {severity}{accepted}: {id}.",
        number=number,
        severity=say(finding.severity.value),
        accepted=accepted,
        id=finding.id,
    )
    yield say("What: {title}.", title=one_line(finding.title))
    place = places.place_of(finding)
    if place is not None:
        yield say("Where: {file}", file=one_line(place.file)) + (
            say(", line {line}.", line=place.line) if place.line else say(".")
        )
    quote = places.quoted(finding, facts)
    if quote is not None:
        marked = [quote.source[start:end] for start, end in quote.marked]
        yield say("Source: {source}", source=one_line(quote.source))
        yield (
            say(
                "Promoted by: {words}, from {dtype_in} to {dtype_out}.",
                words=one_line(say(" or ").join(marked) or quote.call),
                dtype_in=dtype_path.short(quote.dtype_in),
                dtype_out=dtype_path.short(quote.dtype_out),
            )
        )
    elif place is not None and place.note:
        yield say("The log says: {note}", note=one_line(place.note))
    yield say("Confidence: {confidence}.", confidence=phrases.confidence(finding))
    if verbose:
        yield say("Why: {why}", why=one_line(finding.why))
    for count, remedy in enumerate(finding.remedies[: None if verbose else 1], start=1):
        yield say(
            "{label} {count}: {title} ({safety}).",
            label=say(advice.label(finding, remedy)).capitalize(),
            count=count,
            title=one_line(remedy.title),
            safety=say(remedy.safety.value),
        )
        yield from advice.by_hand(remedy)
        yield from (
            f"{say('Type') if in_shell else say('Write')}: {command}" for command, in_shell in advice.commands(remedy)
        )
    if page := advice.page(finding):
        yield say("Page: {page}", page=page)


def _trace(trace: Trace) -> Iterator[str]:
    yield say("Traced {words}: {rules}.", words=one_line(trace.words), rules=one_line(say_filled(trace.rules)))
    for call in trace.calls:
        yield from _call(call, trace)
    if trace.error:
        yield one_line(trace.error)


def _call(call: AttentionCall, trace: Trace) -> Iterator[str]:
    at = say(" at {file}, line {line}", file=call.place.file, line=call.place.line) if call.place else ""
    yield say(
        "Call {name}{at_}, {of_trace}: gets {gets}.",
        name=call.name,
        at_=at,
        of_trace=verdict.of_trace(call.verdict),
        gets=dtype_path.gets(call),
    )
    if call.verdict == "clean":
        return
    for line in dtype_path.listing(call, trace).lines:
        dtypes = ", ".join(f"{role} {dtype_path.short(cell.dtype)}" for role, cell in line.cells.items())
        yield say("Line {line}: {source}", line=line.place.line, source=one_line(line.place.source))
        yield say("After it: {dtypes}.", dtypes=dtypes)
        for mark in line.marks:
            marked = say(" or ").join(line.place.source[start:end] for start, end in mark.spans)
            yield (
                say("Promotes: {marked}: {words}.", marked=one_line(marked), words=one_line(mark.words))
                if marked
                else f"{one_line(mark.words)}."
            )


RENDERER = Renderer(
    "plain", media=Media.PERSON, pages=(Page(CHECK, _write), Page(TRACE, _write), Page(EXPLAIN, _write))
)
