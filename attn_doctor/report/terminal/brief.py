"""The short report: what is wrong, the line where, the first fix, and last the next step. -v and `explain ID` have the
rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO

from rich.text import Text

from attn_doctor.machine import faults
from attn_doctor.machine.printable import one_line
from attn_doctor.model.facts import Absent, FactSet, Unknown
from attn_doctor.model.findings import Finding, Remedy, Severity
from attn_doctor.model.report import Report
from attn_doctor.report.language import say, say_filled
from attn_doctor.report.terminal.console import ReportConsole
from attn_doctor.report.terminal.report import SEVERITY_STYLES, unwritten
from attn_doctor.report.words import advice, excerpt, phrases, places, steps, verdict
from attn_doctor.report.words.cells import cells, padded, wrapped
from attn_doctor.report.words.dtype_path import Mark, in_short, short

_SIGNS = {Severity.ERROR: "✗", Severity.WARNING: "!", Severity.INFO: "·"}
#: Lines of a fix that is done by hand; `explain ID` has all of it.
_MOST_ADVICE = 2
#: Reasons of open questions.
_MOST_REASONS = 2
_INDENT = 4


def write(report: Report, stream: IO[str]) -> None:
    """Writes the report of `check` or `trace`."""
    console = ReportConsole(stream)
    page = Page(console, report)
    sections: list[tuple[str, Callable[[], None]]] = [("head", page.head)]
    apart = report.diagnosis.findings
    if report.trace is not None:
        from attn_doctor.report.terminal import brief_trace

        traced = brief_trace.Calls(page, report, report.trace)
        apart = traced.apart
        sections.append(("trace", traced.write))
    if report.semantics is not None:
        from attn_doctor.report.terminal import semantics

        sections.append(("semantics", partial(semantics.write, report.semantics, console, verbose=False)))
    if report.kernels is not None:
        from attn_doctor.report.terminal import kernels

        sections.append(("kernels", partial(kernels.write, report.kernels, console, verbose=False)))
    sections += [(f"finding {one.id}", partial(page.finding, one)) for one in apart]
    sections.append(("open questions", page.questions))
    for name, section in sections:
        faults.survive(f'section "{name}" of the report', section, partial(unwritten, console))
    page.end()


class Page:
    """The parts of a short report."""

    def __init__(self, console: ReportConsole, report: Report) -> None:
        self.console = console
        self._report = report
        self._told: set[tuple[object, ...]] = set()

    def head(self) -> None:
        """What was examined, in a line."""
        for line in wrapped(head(self._report), self.console.width):
            self.console.whole(Text(line, style="bold"))
        if self._report.examined.others:
            others = ", ".join(self._report.examined.others)
            self.lines(say("also holding torch, not examined: {others}", others=others), indent=0)
        for line in phrases.configs(self._report.facts):
            self.console.whole(Text(one_line(line), style="dim"))
        if self._report.trace is None:
            self.console.print()

    def finding(self, finding: Finding) -> None:
        """What, where, fix."""
        accepted = finding.accepted
        sign, style = ("✓", "green") if accepted else (_SIGNS[finding.severity], SEVERITY_STYLES[finding.severity])
        on = phrases.shortened(phrases.telling(finding.subjects, finding.title))
        title = one_line(finding.title) + (f" ({one_line(on)})" if on else "")
        head = Text.assemble((sign, style), " ", (finding.id, "bold"))
        if head.cell_len + 2 + cells(title) <= self.console.width:
            self.console.whole(head + Text(f"  {title}"))
        else:
            self.console.whole(head)
            self.lines(title)
        if accepted:
            until = say(" until {expires}", expires=accepted.expires) if accepted.expires else ""
            self.lines(say("accepted{until}: {reason}", until=until, reason=accepted.reason), style="dim")
            return
        self.where(finding)
        words = (finding.id, finding.why, tuple(one.title for one in finding.remedies))
        if words in self._told and finding.remedies:
            self._row("fix", say("as above"))
        else:
            self._told.add(words)
            self.fix(finding)

    def where(self, finding: Finding) -> None:
        """The place, and its source line when a run saw it."""
        place = places.place_of(finding)
        quote = places.quoted(finding, self._report.facts)
        if quote is not None:
            self.arrow(places.shown(quote.file, quote.line))
            digits = len(str(quote.line))
            wide = short(quote.dtype_out)
            born = in_short(places.shortened(quote.born)).removesuffix(f": {wide}")
            words = f"{short(quote.dtype_in)} → {wide}{f': {born}' if born else ''}"
            mark = Mark(spans=quote.marked, words=words)
            room = self.console.width - _INDENT - digits - 4
            source, moved = excerpt.quoted(quote.source, list(quote.marked), room)
            self.console.whole(Text(f"{'':{_INDENT}}{quote.line} |  {source}"))
            gutter = f"{'':{_INDENT}}{'':{digits}} |  "
            for line, _ in excerpt.underlined(mark, source, moved, gutter=gutter, width=self.console.width):
                self.console.whole(Text(line, style="yellow"))
        elif place is not None and (place.line or Path(place.file).suffix):
            self.arrow(places.shown(place.file, place.line))

    def arrow(self, place: str) -> None:
        """A place, to be opened by an editor."""
        self.console.whole(Text(f"{'':{_INDENT}}--> {one_line(place)}", style="dim"))

    def fix(self, finding: Finding) -> None:
        """The first remedy: its commands, or what a person has to do."""
        if finding.family:
            first = finding.remedies[0] if finding.remedies else None
            label = advice.label(finding, first) if first else "check"
            self._row(label, first.title if first else finding.why)
        elif finding.remedies:
            self.remedy("fix", finding.remedies[0])
        elif finding.severity is not Severity.INFO:
            self._row("fix", say("none is known for this node"))

    def remedy(self, label: str, remedy: Remedy) -> None:
        """What to type, or the title with the first lines of what to do."""
        commands = advice.commands(remedy)
        for number, (command, in_shell) in enumerate(commands):
            name = label if number == 0 else ""
            self.console.whole(
                Text.assemble(
                    (" " * _INDENT + padded(say(name), 5), "dim"), ("$ " if in_shell else "", "dim"), (command, "green")
                )
            )
        if commands:
            return
        self._row(label, remedy.title)
        words = " ".join(advice.by_hand(remedy))
        cut = " …"
        lines = wrapped(words, self.console.width - _INDENT - 5 - len(cut)) if words else ()
        more = cut if len(lines) > _MOST_ADVICE else ""
        for number, line in enumerate(lines[:_MOST_ADVICE], start=1):
            self.console.whole(Text(f"{'':{_INDENT + 5}}{line}{more if number == _MOST_ADVICE else ''}"))

    def row(self, label: str, words: str) -> None:
        """A labelled line of another part."""
        self._row(label, words)

    def _row(self, label: str, words: str) -> None:
        """A labelled line, which hangs under its own text."""
        for number, line in enumerate(wrapped(one_line(words), self.console.width - _INDENT - 5)):
            self.console.whole(
                Text(" " * _INDENT + padded(say(label) if number == 0 else "", 5), style="dim") + Text(line)
            )

    def lines(self, words: str, *, indent: int = _INDENT, style: str = "") -> None:
        """Words between the margins."""
        for line in wrapped(one_line(words), self.console.width - indent):
            self.console.whole(Text(" " * indent + line, style=style))

    def questions(self) -> None:
        """What could not be decided, by reason."""
        questions = self._report.diagnosis.open_questions
        if not questions:
            return
        reasons = phrases.by_reason(questions)
        number = len(questions)
        several = say("checks") if number > 1 else say("check")
        sign = Text.assemble(
            ("?", "bold magenta"),
            say(" {number} {several} could not be decided: treat as unknown", number=number, several=several),
        )
        self.console.whole(sign)
        for reason, recipes in list(reasons.items())[:_MOST_REASONS]:
            named = ", ".join(recipes[:3]) + (
                say(" and {number} more", number=len(recipes) - 3) if len(recipes) > 3 else ""
            )
            self.lines(f"{reason}: {named}")
        if len(reasons) > _MOST_REASONS:
            self.lines(say("and {number} more reasons (-v)", number=len(reasons) - _MOST_REASONS))

    def end(self) -> None:
        """The result, what it does not cover, and what to do next."""
        report = self._report
        if report.diagnosis.findings or report.diagnosis.open_questions:
            self.console.print()
        counted = verdict.counted(report)
        clean = len(report.diagnosis.cleared)
        for line in verdict.lines(report, questions=False):
            ours = line.startswith(counted)
            more = say(" · {clean} checks clean", clean=clean) if ours and clean and report.command == "check" else ""
            self.lines(line.removesuffix(say(".")) + more if more else line, indent=0, style="bold" if ours else "")
        for label, command, what in steps.next_steps(report):
            text = Text.assemble((f"  {padded(say(label), 6)} ", "dim"), (command, "green"))
            beside = text.cell_len + 3 + cells(what) <= self.console.width
            if beside:
                text.append(f"   {what}", style="dim")
            self.console.whole(text)
            if label == "fix" and not beside:  # nobody types it who does not know what it changes
                self.lines(what, indent=9, style="dim")


def head(report: Report) -> str:
    """The version, the environment, its torch, and the GPUs, in a line."""
    facts = report.facts
    torch = facts.value("torch.version") or facts.value("package.torch.version")
    words = [
        f"attn-doctor {report.doctor_version}",
        _examined(report),
        *(
            [f"torch {torch}"]
            if torch
            else [say("no torch")]
            if isinstance(facts.fact("torch.version").state, Absent)
            else []
        ),
        *_gpus(facts),
    ]
    return " · ".join(words)


def _examined(report: Report) -> str:
    """The environment, or the file that is judged in its place."""
    one, lock = report.examined, report.foreseen
    if lock is None:
        return say(
            "{environment} (Python {version}; {because})",
            environment=places.environment(one.python),
            version=one.version,
            because=_because(one.because),
        )
    left = say(", {open} of them not pinned", open=lock.open) if lock.open else ""
    python = say("Python {version}; ", version=one.version) if one.version else ""
    packages = say("1 package") if lock.packages == 1 else say("{packages} packages", packages=lock.packages)
    return say(
        "{words} ({python}{packages}{left}; nothing is installed)",
        words=places.below(lock.file) or lock.file,
        python=python,
        packages=packages,
        left=left,
    )


def _because(reason: str) -> str:
    """Why this environment, without its path, which stands before it."""
    return say("the nearest one") if reason.endswith("is the nearest environment here") else say_filled(reason)


def _gpus(facts: FactSet) -> Iterator[str]:
    subjects = facts.subjects("gpu")
    assumed = [one for one in subjects if facts.fact(f"gpu.{one}.compute_capability").origin.value == "assumed"]
    names: dict[str, int] = {}
    for index in subjects:
        name = str(facts.value(f"gpu.{index}.name") or "GPU")
        names[name] = names.get(name, 0) + 1
    told = ", ".join(f"{count}× {name}" if count > 1 else name for name, count in names.items())
    if told:
        yield say("as if {names}", names=told) if assumed else told
    else:
        yield say("GPUs not known") if isinstance(facts.fact("listed.gpu").state, Unknown) else say("no GPU")
