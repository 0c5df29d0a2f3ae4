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
from attn_doctor.report.renderer import CHECK, EXPLAIN, TRACE, Manner, Media, Page, Renderer
from attn_doctor.report.words import advice, dtype_path, phrases, places, steps, verdict

if TYPE_CHECKING:
    from attn_doctor.model.trace import AttentionCall, Trace


def _write(report: Report, stream: IO[str], manner: Manner) -> None:
    lines = [one_line(phrases.examined(report)) + "."]
    if report.trace is not None:
        lines += faults.lines("trace", partial(_trace, report.trace))
    findings = report.diagnosis.findings
    for number, finding in enumerate(findings, start=1):
        part = partial(_finding, finding, report.facts, f"{number} of {len(findings)}", verbose=manner.verbose)
        lines += ["", *faults.lines(f"finding {finding.id}", part)]
    if report.diagnosis.open_questions:
        lines.append("")
    for reason, recipes in phrases.by_reason(report.diagnosis.open_questions).items():
        lines.append(f"Not decided: {', '.join(recipes)}. Reason: {one_line(reason)}.")
    lines += ["", *verdict.lines(report)]
    lines += [f"To {_STEPS[label]}: {command}" for label, command, _ in steps.next_steps(report)]
    stream.write(harmless("".join(f"{line}\n" for line in lines)))


_STEPS = {"fix": "repair it", "why": "read why", "share": "share it"}


def _finding(finding: Finding, facts: FactSet, number: str, *, verbose: bool) -> Iterator[str]:
    accepted = ", accepted" if finding.accepted else ""
    yield f"Finding {number}, {finding.severity.value}{accepted}: {finding.id}."
    yield f"What: {one_line(finding.title)}."
    place = places.place_of(finding)
    if place is not None:
        yield f"Where: {one_line(place.file)}" + (f", line {place.line}." if place.line else ".")
    quote = places.quoted(finding, facts)
    if quote is not None:
        marked = [quote.source[start:end] for start, end in quote.marked]
        yield f"Source: {one_line(quote.source)}"
        yield (
            f"Promoted by: {one_line(' or '.join(marked) or quote.call)}, from {dtype_path.short(quote.dtype_in)} to "
            f"{dtype_path.short(quote.dtype_out)}."
        )
    elif place is not None and place.note:
        yield f"The log says: {one_line(place.note)}"
    yield f"Confidence: {phrases.confidence(finding)}."
    if verbose:
        yield f"Why: {one_line(finding.why)}"
    for count, remedy in enumerate(finding.remedies[: None if verbose else 1], start=1):
        yield f"{'Check' if finding.family else 'Fix'} {count}: {one_line(remedy.title)} ({remedy.safety.value})."
        yield from advice.by_hand(remedy)
        yield from (f"{'Type' if in_shell else 'Write'}: {command}" for command, in_shell in advice.commands(remedy))
    if page := advice.page(finding):
        yield f"Page: {page}"


def _trace(trace: Trace) -> Iterator[str]:
    yield f"Traced {one_line(trace.words)}: {one_line(trace.rules)}."
    for call in trace.calls:
        yield from _call(call, trace)
    if trace.error:
        yield one_line(trace.error)


def _call(call: AttentionCall, trace: Trace) -> Iterator[str]:
    at = f" at {call.place.file}, line {call.place.line}" if call.place else ""
    yield f"Call {call.name}{at}, {verdict.of_trace(call.verdict)}: gets {dtype_path.gets(call)}."
    if call.verdict == "clean":
        return
    for line in dtype_path.listing(call, trace).lines:
        dtypes = ", ".join(f"{role} {dtype_path.short(cell.dtype)}" for role, cell in line.cells.items())
        yield f"Line {line.place.line}: {one_line(line.place.source)}"
        yield f"After it: {dtypes}."
        for mark in line.marks:
            marked = " or ".join(line.place.source[start:end] for start, end in mark.spans)
            yield f"Promotes: {one_line(marked)}: {one_line(mark.words)}." if marked else f"{one_line(mark.words)}."


RENDERER = Renderer(
    "plain", media=Media.PERSON, pages=(Page(CHECK, _write), Page(TRACE, _write), Page(EXPLAIN, _write))
)
