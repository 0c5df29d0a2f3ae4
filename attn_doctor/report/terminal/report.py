"""The report for a person: cause, evidence, place and fix on one screen. Plain when it is not a terminal."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import IO, TYPE_CHECKING

from rich.text import Text

from attn_doctor.machine import faults
from attn_doctor.machine.own_command import as_typed
from attn_doctor.machine.printable import one_line
from attn_doctor.model.facts import Absent, FactSet, Known
from attn_doctor.model.findings import Finding, Remedy, Severity
from attn_doctor.model.report import Report
from attn_doctor.report.language import say
from attn_doctor.report.terminal.console import ReportConsole
from attn_doctor.report.words import advice, phrases, verdict
from attn_doctor.report.words.cells import padded

if TYPE_CHECKING:
    from attn_doctor.model.compiled_regions import CompiledRegions
    from attn_doctor.model.kernels import KernelTrials
    from attn_doctor.model.semantics import Semantics
    from attn_doctor.model.trace import Trace  # ten classes, which only `trace` needs

SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}
#: More than this many pieces of evidence hide the one that matters; -v shows all.
_MOST_EVIDENCE = 5
#: A thousand ranks report the same; -v shows all.
_MOST_QUOTES, _MOST_PLACES = 1, 4
#: Characters of the widest label, "confidence".
_LABEL = 10
#: Mangled symbols come by the hundred.
_LONGEST_EVIDENCE = 300


def write(report: Report, stream: IO[str], *, verbose: bool) -> None:
    """Writes the whole report."""
    console = ReportConsole(stream)
    out = Writer(console, verbose=verbose)
    sections: list[tuple[str, Callable[[], None]]] = [("head", partial(out.head, report))]
    if report.trace is not None:
        sections.append(("trace", partial(_trace, report.trace, console, verbose=verbose)))
    if report.semantics is not None:
        sections.append(("semantics", partial(_semantics, report.semantics, console, verbose=verbose)))
    if report.compiled_regions is not None:
        sections.append(("compiled", partial(_compiled, report.compiled_regions, console, verbose=verbose)))
    if report.kernels is not None:
        sections.append(("kernels", partial(_kernels, report.kernels, console, verbose=verbose)))
    sections += [(f"finding {one.id}", partial(out.finding, one)) for one in report.diagnosis.findings]
    sections.append(("open questions", partial(out.questions, report)))
    if verbose:
        sections.append(("facts", partial(out.facts, report.facts)))
    for name, section in sections:
        faults.survive(f'section "{name}" of the report', section, partial(unwritten, console))
    counted = verdict.counted(report)
    for line in verdict.lines(report):
        console.print(Text(one_line(line), style="bold" if line.startswith(counted) else ""))


def unwritten(console: ReportConsole, reason: str) -> None:
    """A line in the place of a section that could not be written."""
    console.print(Text(f"… {reason}", style="bold magenta"))


def _trace(trace: Trace, console: ReportConsole, *, verbose: bool) -> None:
    from attn_doctor.report.terminal import trace as page  # loads rich's tables, which only this needs

    page.write(trace, console, verbose=verbose)


def _semantics(found: Semantics, console: ReportConsole, *, verbose: bool) -> None:
    from attn_doctor.report.terminal import semantics as page  # with the page of a trace, which only this needs

    page.write(found, console, verbose=verbose)


def _compiled(found: CompiledRegions, console: ReportConsole, *, verbose: bool) -> None:
    from attn_doctor.report.terminal import compiled_regions as page

    page.write(found, console, verbose=verbose)


def _kernels(trials: KernelTrials, console: ReportConsole, *, verbose: bool) -> None:
    from attn_doctor.report.terminal import kernels as page

    page.write(trials, console, verbose=verbose)


class Writer:
    """Writes the parts of a report; other reports for people are made of the same ones."""

    def __init__(self, console: ReportConsole, *, verbose: bool) -> None:
        self._console = console
        self._verbose = verbose
        self._before: Finding | None = None

    def head(self, report: Report) -> None:
        self._whole(Text(one_line(phrases.examined(report)), style="bold"))
        if report.examined.others:
            self._console.print(
                one_line(say("also holding torch, not examined: {others}", others=", ".join(report.examined.others)))
            )
        if report.foreseen is None:
            self._console.print(one_line(phrases.node(report.facts)))
        for line in (
            *phrases.gpus(report.facts),
            phrases.stack(report.facts),
            *phrases.samples(report.facts),
            *phrases.configs(report.facts),
        ):
            self._console.print(one_line(line))
        self._console.print()

    def finding(self, finding: Finding) -> None:
        place = finding.locations[0] if finding.locations else None
        head = Text.assemble(
            (f"[{say(finding.severity.value)}]", SEVERITY_STYLES[finding.severity]),
            " ",
            (finding.id, "bold"),
            f"  {say(place.file)}" if place else "",
            f":{place.line}" if place and place.line else "",
            (say("  accepted"), "green") if finding.accepted else "",
        )
        self._whole(head)
        self._indented(one_line(finding.title))
        for location in finding.locations[: None if self._verbose else _MOST_QUOTES]:
            if location.note:  # a log's own words
                self._row(say("line {line}", line=location.line), location.note)
        on = phrases.shortened(phrases.telling(finding.subjects, finding.title))
        if on:
            self._row("on", on)
        if finding.accepted:
            until = say(" until {expires}", expires=finding.accepted.expires) if finding.accepted.expires else ""
            self._row("accepted", f"{finding.accepted.reason}{until}")
        if finding.severity is Severity.INFO and not finding.remedies and not self._verbose:
            self._before = None
            if finding.family:
                self._row("look", finding.why)
            self._console.print()
            return  # nothing can be done about it: -v shows the reason
        shown = finding.evidence if self._verbose else finding.evidence[:_MOST_EVIDENCE]
        for number, fact in enumerate(shown):
            text = phrases.evidence(fact)
            if not self._verbose and len(text) > _LONGEST_EVIDENCE:
                text = text[:_LONGEST_EVIDENCE] + say(" … (-v shows all)")
            self._row("because" if number == 0 else "", text, f"  [{fact.how}]")
        if len(finding.evidence) > len(shown):
            self._row("", say("and {number} more (-v)", number=len(finding.evidence) - len(shown)))
        for title, where in phrases.symptoms(finding.symptoms):
            self._row("causes", title, where)
        before, self._before = self._before, finding
        if before is not None and _reads_alike(before, finding) and not self._verbose:
            self._row("", say("why and fix as for the finding above"))
            self._console.print()
            return
        self._row("why", finding.why)
        also = finding.locations[1:]
        for number, location in enumerate(also if self._verbose else also[:_MOST_PLACES], start=1):
            self._row(
                "also at" if number == 1 else "", f"{location.file}" + (f":{location.line}" if location.line else "")
            )
        if len(also) > _MOST_PLACES and not self._verbose:
            self._row("", say("and {number} more (-v)", number=len(also) - _MOST_PLACES))
        self._remedies(finding)
        if not finding.remedies and finding.severity is not Severity.INFO:
            self._row("fix", say("none is known for this node"))
        if finding.known_problems:
            self._row("note", finding.known_problems)
        self._row("confidence", phrases.confidence(finding))
        if finding.references:
            self._row("see", finding.references[0] if not self._verbose else "  ".join(finding.references))
        if page := advice.page(finding):
            self.page(page)
        if self._verbose:
            self._row("recipe", finding.origin)
        self._console.print()

    def written(self, finding: Finding, *, what: str) -> None:
        """The finding's description, without the node or log in which it was found."""
        self._indented(one_line(finding.title))
        if what:
            self._row("what", what)
        self._row("why" if not finding.family else "what", finding.why)
        self._remedies(finding)
        if finding.known_problems:
            self._row("note", finding.known_problems)
        for number, url in enumerate(finding.references):
            self._row("see" if number == 0 else "", url)
        self._row("recipe", finding.origin)

    def page(self, address: str) -> None:
        """The row with the address of the recipe's page, or with a command, whole."""
        self._whole(Text(f"  {padded(say('page'), _LABEL)} ", style="dim") + Text(address))

    def _remedies(self, finding: Finding) -> None:
        before = ""
        for number, remedy in enumerate(finding.remedies, start=1):
            label = advice.label(finding, remedy)
            self._remedy(label, number, remedy, shown=label != before)
            before = label

    def _remedy(self, label: str, number: int, remedy: Remedy, *, shown: bool) -> None:
        why = say(": {why}", why=remedy.why_this_safety) if remedy.why_this_safety else ""
        safety = say("  ({safety})", safety=f"{say(remedy.safety.value)}{why}") if label != "check" else ""
        self._row(label if shown else "", f"{number}. {remedy.title}", safety)
        for one in remedy.actions:
            for words in (one.action.advice, one.action.hint):
                if words:
                    self._row("", f"   {words}")
            for command in one.commands:
                prompt = "$ " if one.action.for_a_shell else ""
                self._whole(Text.assemble(" " * (_LABEL + 6), (prompt, "dim"), (as_typed(command), "green")))

    def questions(self, report: Report) -> None:
        if not report.diagnosis.open_questions:
            return
        self._console.print(Text(say("[open questions]"), style="bold magenta"))
        for reason, recipes in phrases.by_reason(report.diagnosis.open_questions).items():
            self._indented(reason)
            self._row("leaves", ", ".join(recipes))
        self._console.print()

    def facts(self, facts: FactSet) -> None:
        self._console.print(Text(say("[facts]"), style="bold"))
        for fact in facts.values():
            if isinstance(fact.state, Absent) and fact.name.kind == "env":
                continue
            style = "" if isinstance(fact.state, Known) else "dim"
            origin = "" if fact.origin.value == "probed" else f" {fact.origin.value};"
            self._whole(
                Text.assemble(
                    "  ", (phrases.said(fact), style), (f"  [{origin.strip()} {fact.how}]".replace("[ ", "["), "dim")
                )
            )
        self._console.print()

    def _row(self, label: str, text: str, aside: str = "") -> None:
        body = Text(text) + Text(aside, style="dim")
        # The text hangs under itself, not under its label.
        for number, line in enumerate(self._console.broken(body, max(self._console.width - _LABEL - 3, 40))):
            self._whole(Text(f"  {padded(say(label) if number == 0 else '', _LABEL)} ", style="dim") + line)

    def _indented(self, text: str) -> None:
        for line in self._console.broken(text, max(self._console.width - 2, 40)):
            self._whole(Text("  ") + line)

    def _whole(self, text: Text) -> None:
        """Without wrapping: paths and commands are there to be copied."""
        # And on one line: no value can begin a line that reads like one of ours.
        self._console.print(Text(" ").join(text.split("\n")), no_wrap=True, overflow="ignore", crop=False)


def _reads_alike(one: Finding, other: Finding) -> bool:
    """True when reason and fix would be repeated word for word; only the places differ."""

    def words(finding: Finding) -> tuple[object, ...]:
        commands = [action.commands for remedy in finding.remedies for action in remedy.actions]
        return finding.id, finding.why, finding.known_problems, [remedy.title for remedy in finding.remedies], commands

    return words(one) == words(other)
