"""`junit`: a test case for each recipe, as XML that CI systems show: failed where it found something at or above
--fail-on, skipped where it could not be decided.

No standard describes it; read by Jenkins, GitLab and Azure alike is
https://github.com/testmoapp/junitxml#complete-junit-xml-example.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import IO

from attn_doctor.machine.printable import harmless, one_line
from attn_doctor.model.findings import Finding, Severity
from attn_doctor.model.outcomes import BROKEN
from attn_doctor.model.report import Report
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.quick_patterns import when_used
from attn_doctor.report.renderer import CHECK, EXPLAIN, TRACE, Manner, Media, Page, Renderer
from attn_doctor.report.words import advice, phrases, places, verdict

#: Characters that XML 1.0 cannot hold even escaped: https://www.w3.org/TR/xml/#charsets
_NO_XML = when_used("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    name: str
    outcome: str = ""
    """failure, error, skipped; empty: passed."""
    message: str = ""
    text: str = ""
    file: str = ""
    line: int | None = None


def _cases(report: Report, fail_on: Severity) -> Iterator[_Case]:
    for finding in report.diagnosis.findings:
        place = places.place_of(finding)
        gates = finding.accepted is None and finding.severity.rank <= fail_on.rank
        lines = [f"at {place.file}" + (f":{place.line}" if place.line else "")] if place else []
        lines += [*advice.plain(finding), f"Confidence: {phrases.confidence(finding)}"]
        yield _Case(
            name=_named(finding),
            outcome="failure" if gates else "",
            message=f"{finding.severity.value}: {one_line(finding.title)}",
            text="\n".join(lines),
            file=(places.below(place.file) or place.file) if place else "",
            line=place.line if place else None,
        )
    found = {finding.id for finding in report.diagnosis.findings}
    for reason, recipes in phrases.by_reason(report.diagnosis.open_questions).items():
        yield from (_Case(name=name, outcome="skipped", message=reason) for name in recipes if name not in found)
    for fault in report.own_faults:
        yield _Case(name=fault.part, outcome="error", message=fault.error, text=f"log: {fault.log}")
    if report.failure is not None:
        failure = report.failure
        text = f"{failure.about}\n{failure.hint}"
        yield _Case(name=report.command, outcome="error", message=failure.what, text=text)
    if report.command == CHECK.name:
        yield from (_Case(name=name) for name in report.diagnosis.cleared)
    if report.trace is not None:
        yield from _calls(report)


def _calls(report: Report) -> Iterator[_Case]:
    """The attention calls of a traced run. Of a broken one the findings tell why, if there are any."""
    trace = report.trace
    assert trace is not None
    for call in trace.calls:
        broken = call.verdict in BROKEN and not report.diagnosis.findings
        yield _Case(
            name=f"{call.name}{f' at {places.shown(call.place.file, call.place.line)}' if call.place else ''}",
            outcome="failure" if broken else "",
            message=verdict.of_trace(call.verdict),
            text=call.error,
        )
    if not trace.seen:
        yield _Case(name="attention calls", outcome="skipped", message=trace.error or "no attention call was seen")


def _named(finding: Finding) -> str:
    place = places.place_of(finding)
    where = [places.shown(place.file, place.line)] if place and place.line else []
    told = ", ".join((*phrases.telling(finding.subjects), *where))
    return f"{finding.id} ({told})" if told else finding.id


def _write(report: Report, stream: IO[str], manner: Manner) -> None:
    cases = list(_cases(report, manner.fail_on or Severity.ERROR))
    number = {kind: sum(one.outcome == kind for one in cases) for kind in ("failure", "error", "skipped")}
    counts = (
        f'tests="{len(cases)}" failures="{number["failure"]}" errors="{number["error"]}" skipped="{number["skipped"]}"'
    )
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
    stream.write(f'<testsuites name="attn-doctor" {counts}>\n')
    stamp = _attribute("timestamp", report.created.partition("+")[0])
    stream.write(f"  <testsuite{_attribute('name', f'attn-doctor {report.command}')} {counts}{stamp}>\n")
    for one in cases:
        stream.writelines(f"    {line}\n" for line in _xml(one, report.command))
    stream.write("  </testsuite>\n</testsuites>\n")


def _xml(case: _Case, command: str) -> Iterator[str]:
    where = f"{_attribute('file', case.file)}{_attribute('line', str(case.line)) if case.line else ''}"
    head = f"<testcase{_attribute('classname', f'attn-doctor.{command}')}{_attribute('name', case.name)}"
    head += where if case.file else ""
    if not case.outcome and not case.message:
        yield f"{head}/>"
        return
    yield f"{head}>"
    if case.outcome:
        yield f"  <{case.outcome}{_attribute('message', case.message)}>{_text(case.text)}</{case.outcome}>"
    else:
        told = "\n".join(words for words in (case.message, case.text) if words)
        yield f"  <system-out>{_text(told)}</system-out>"
    yield "</testcase>"


def _attribute(name: str, words: str) -> str:
    return f' {name}="{escape(_clean(one_line(words)))}"'


def _text(words: str) -> str:
    return escape(_clean(harmless(words)), quote=False)


def _clean(words: str) -> str:
    return _NO_XML.sub("\ufffd", words)


RENDERER = Renderer(
    "junit",
    suffixes=(".xml",),
    media=Media.PROGRAM,
    pages=(Page(CHECK, _write), Page(TRACE, _write), Page(EXPLAIN, _write)),
)
