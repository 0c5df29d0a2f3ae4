"""The short report of traced calls: one diagnostic a call, at the source lines of its dtype path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from attn_doctor.machine.printable import one_line
from attn_doctor.model.findings import Finding
from attn_doctor.model.outcomes import BROKEN, TraceVerdict
from attn_doctor.model.report import Report
from attn_doctor.model.trace import AttentionCall, Trace
from attn_doctor.report.language import say, say_filled
from attn_doctor.report.terminal import trace as full
from attn_doctor.report.terminal.report import SEVERITY_STYLES
from attn_doctor.report.words import dtype_path, excerpt, places, verdict

if TYPE_CHECKING:
    from attn_doctor.report.terminal.brief import Page

_TONES = {"file": "dim", "source": "", "bad": "bold", "note": "yellow"}


class Calls:
    """The traced calls with their findings; `apart` are the findings of no call."""

    def __init__(self, page: Page, report: Report, trace: Trace) -> None:
        self._page = page
        self._console = page.console
        self._trace = trace
        findings = report.diagnosis.findings
        self._findings: list[tuple[Finding, ...]] = []
        for number, call in enumerate(trace.calls):
            drawn = call.verdict != TraceVerdict.CLEAN
            self._findings.append(dtype_path.findings_of(number, trace, findings) if drawn else ())
        told = [id(one) for group in self._findings for one in group]
        self.apart = tuple(one for one in findings if id(one) not in told)

    def write(self) -> None:
        """Writes the rules, each call, and what failed outside of them."""
        trace, console = self._trace, self._console
        self._page.lines(self._rules(), indent=0, style="dim")
        missing = any(call.stand_in and not call.needs_gpu for call in trace.calls)
        if missing and not any(self._findings):  # else each call says so
            for words in trace.stood_in:
                self._page.lines(say_filled(words), indent=0, style="yellow")
        told: set[str] = set()
        for call, findings in zip(trace.calls, self._findings, strict=True):
            if call.verdict == TraceVerdict.CLEAN:
                self._clean(call)
            else:
                self._call(call, findings, told)
        full.kernels(trace, console, verbose=False)
        full.failure(trace.failure, console)
        explained = any(call.verdict in BROKEN for call in trace.calls)
        if trace.error and not (explained and self._findings):
            self._page.lines(trace.error, indent=0, style="bold")

    def _rules(self) -> str:
        trace = self._trace
        words = [say("traced {words}", words=trace.words) if trace.words else say("traced"), say_filled(trace.rules)]
        return "; ".join([*words, *([say("as on {gpu}", gpu=trace.gpu)] if trace.gpu_assumed else [])])

    def _clean(self, call: AttentionCall) -> None:
        text = Text.assemble((verdict.of_trace(call.verdict), "green"), f"  {_named(call)}  {dtype_path.gets(call)}")
        if call.place is not None:
            text.append(f"  {places.shown(call.place.file, call.place.line)}", style="dim")
        self._console.whole(text)
        full.backend(call, self._console, verbose=False)
        full.guarded(call, self._console)

    def _call(self, call: AttentionCall, findings: tuple[Finding, ...], told: set[str]) -> None:
        console, width = self._console, self._console.width
        style = "bold red" if call.verdict in BROKEN else "bold yellow"
        head = verdict.of_trace(call.verdict)
        if findings:
            style = SEVERITY_STYLES[findings[0].severity]
            head = f"{say(findings[0].severity.value)}[{findings[0].id}]"
        self._page.lines(
            say("{head}: {named} gets {gets}", head=head, named=_named(call), gets=dtype_path.gets(call)),
            indent=0,
            style=style,
        )
        if call.place is not None:
            asides = [say("{calls} calls, all alike", calls=call.calls)] if call.calls > 1 else []
            asides += [say_filled(call.stand_in.partition(":")[0])] if call.stand_in else []
            aside = f"   ({'; '.join(asides)})" if asides else ""
            console.whole(Text(f"  --> {places.shown(call.place.file, call.place.line)}{aside}", style="dim"))
        if call.written_out:
            self._page.lines(
                say("softmax(q k^T) v in the model's own ops: no attention kernel was called"), style="dim"
            )
        path = dtype_path.listing(call, self._trace)
        for line, tone in excerpt.lines(path, width=width):
            console.whole(Text(line, style=_TONES[tone]))
        full.beginnings(call, console)
        full.backend(call, console, verbose=False)
        full.guarded(call, console)
        if call.error:
            self._row("says", call.error)
        ids = [one.id for one in findings]
        if len(findings) > 1 and len(set(ids)) > 1:
            self._row("also", ", ".join(dict.fromkeys(one for one in ids[1:] if one != ids[0])))
        first = findings[0] if findings else None
        if first is not None and first.remedies and first.id not in told:
            told.add(first.id)
            self._page.remedy("help", first.remedies[0])
        elif first is not None and first.remedies:
            self._row("help", say("as above"))
        if self._trace.counterfactual and call.verdict in BROKEN:
            self._row("note", say_filled(self._trace.counterfactual))

    def _row(self, label: str, words: str) -> None:
        self._page.row(label, one_line(words))


def _named(call: AttentionCall) -> str:
    return call.name + (f" ×{call.calls}" if call.calls > 1 and call.verdict == TraceVerdict.CLEAN else "")
