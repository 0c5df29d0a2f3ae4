"""The answer of `explain` on one screen: the cause, the log's own line, the first way to fix it; -v has the rest."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from attn_doctor.machine.own_command import as_typed
from attn_doctor.machine.printable import one_line
from attn_doctor.model.findings import Finding, Remedy, Severity
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.report.language import say
from attn_doctor.report.terminal.console import ReportConsole
from attn_doctor.report.terminal.report import SEVERITY_STYLES
from attn_doctor.report.words import advice, phrases
from attn_doctor.report.words.cells import padded

#: Lines of the whole answer, head and verdict included.
MOST_LINES = 15
#: Other findings that have a line of their own.
_MOST_OTHERS = 2
_LABEL = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Lines that belong together; of `lines` at least `least` are shown, and more while there is room."""

    lines: Sequence[Text]
    least: int = 1
    urgency: int = 9
    """The lowest gets room first."""


def answer(findings: Sequence[Finding], console: ReportConsole, *, room: int) -> None:
    """Writes the findings in no more lines than there is room for: the first in short, of the others their titles."""
    first, others = findings[0], findings[1:]
    blocks = [*_of(first, console), *_others(others, console)]
    hidden = _hidden(first, others)
    for line in _fitted(blocks, room - bool(hidden)):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    if hidden:
        console.print(Text(say("-v shows {hidden}.", hidden=hidden), style="dim"), no_wrap=True, overflow="ellipsis")


def _of(finding: Finding, console: ReportConsole) -> list[_Block]:
    place = finding.locations[0] if finding.locations else None
    where = f"  {say(place.file)}" + (f":{place.line}" if place.line else "") if place else ""
    sure = "" if finding.family else say("  confirmed") if finding.certainty == "seen" else say("  likely")
    head = Text.assemble(
        (f"[{say(finding.severity.value)}]", SEVERITY_STYLES[finding.severity]),
        (f" {finding.id}", "bold"),
        where,
        (sure, "dim"),
    )
    blocks = [_Block(lines=[head]), _Block(lines=_wrapped(one_line(finding.title), console, indent=2), urgency=2)]
    if place and place.note:
        blocks.append(_Block(lines=_row(say("line {line}", line=place.line), place.note, console), urgency=6))
    on = phrases.shortened(phrases.telling(finding.subjects, finding.title))
    if on:
        blocks.append(_Block(lines=_row("on", on, console)))
    because = [phrases.evidence(fact) for fact in finding.evidence]
    if because:
        blocks.append(_Block(lines=_row("because", "; ".join(because), console), least=0, urgency=5))
    if finding.why:
        label = "look" if finding.family and not finding.remedies else "why"
        blocks.append(_Block(lines=_row(label, finding.why, console), urgency=7))
    if finding.family:
        for number, remedy in enumerate(finding.remedies):
            blocks += _remedy("check" if number == 0 else "", remedy, console)
    elif finding.remedies:
        blocks += _remedy("fix", finding.remedies[0], console)
    elif finding.severity is not Severity.INFO:
        blocks.append(_Block(lines=_row("fix", say("none is known for what the log tells"), console)))
    if page := advice.page(finding):
        blocks.append(_Block(lines=[Text(f"  {padded(say('page'), _LABEL)} ", style="dim") + Text(page)]))
    return blocks


def _remedy(label: str, remedy: Remedy, console: ReportConsole) -> list[_Block]:
    aside = "" if label != "fix" else say("  ({safety})", safety=say(remedy.safety.value))
    blocks = [_Block(lines=_row(label, remedy.title + aside, console), urgency=3)]
    for one in remedy.actions:
        for words in (one.action.advice, one.action.hint):
            if words:
                blocks.append(_Block(lines=_row("", words, console), least=0, urgency=4))
        prompt = "$ " if one.action.for_a_shell else ""
        typed = map(as_typed, one.commands)
        commands = [Text.assemble(" " * (_LABEL + 3), (prompt, "dim"), (text, "green")) for text in typed]
        if commands:
            blocks.append(_Block(lines=commands, least=0, urgency=1))
    return blocks


def _others(others: Sequence[Finding], console: ReportConsole) -> list[_Block]:
    return [
        _Block(lines=_row("or" if number == 0 else "", f"{one.id}: {one_line(one.title)}", console)[:1], urgency=8)
        for number, one in enumerate(others[:_MOST_OTHERS])
    ]


def _hidden(first: Finding, others: Sequence[Finding]) -> str:
    if first.family and not first.remedies and not others:
        return ""
    more = len(first.remedies) - 1
    parts = []
    if more > 0 and not first.family:
        parts.append(say("{more} more way{s} to fix it", more=more, s="s" if more > 1 else ""))
    if len(others) > _MOST_OTHERS:
        parts.append(say("{number} more findings", number=len(others) - _MOST_OTHERS))
    return say(", ").join([*parts, say("the whole reason, what each fix changes, and the sources")])


def _fitted(blocks: Sequence[_Block], room: int) -> list[Text]:
    """The lines of the blocks that fit; a shortened block has a note."""
    shown = [min(one.least, len(one.lines)) for one in blocks]
    for number in sorted(range(len(blocks)), key=lambda number: blocks[number].urgency):
        left = room - sum(shown)
        shown[number] += max(0, min(left, len(blocks[number].lines) - shown[number], 2))
    found: list[Text] = []
    for one, count in zip(blocks, shown, strict=True):
        lines = list(one.lines[:count])
        if lines and count < len(one.lines):
            lines[-1] = lines[-1].copy()
            lines[-1].rstrip()
            lines[-1].append(" …")
        found += lines
    return found


def _row(label: str, text: str, console: ReportConsole) -> list[Text]:
    lines = _wrapped(one_line(text), console, indent=_LABEL + 3)
    head = Text(f"  {padded(say(label), _LABEL)} ", style="dim") + lines[0][_LABEL + 3 :]
    return [head, *lines[1:]]


def _wrapped(text: str, console: ReportConsole, *, indent: int) -> list[Text]:
    lines = console.broken(text, max(console.width - indent - 2, 40))
    return [Text(" " * indent) + line for line in lines] or [Text(" " * indent)]
