"""The answer of `explain` on one screen: the cause, the log's own line, the first way to fix it and what the second one
is; -v has the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from attn_doctor.machine.own_command import as_typed
from attn_doctor.machine.printable import one_line
from attn_doctor.model.findings import Finding, Remedy, Safety, Severity
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.report.language import say
from attn_doctor.report.terminal.console import ReportConsole
from attn_doctor.report.terminal.report import SEVERITY_STYLES
from attn_doctor.report.words import advice, phrases
from attn_doctor.report.words.cells import cells, padded

#: Lines of the whole answer, head and verdict included.
MOST_LINES = 15
#: Other findings that have a line of their own.
_MOST_OTHERS = 2
_LABEL = 7
#: Between two sentences; a dot within a name or a version has no space behind it. Chinese has none at all.
_SENTENCE_END = re.compile(r"(?<=[a-z0-9)\]`\"'][.!?]) (?=[A-Z`\"'(])|(?<=[。！？])")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Lines that belong together; of `lines` at least `least` are shown, and more while there is room."""

    lines: Sequence[Text]
    least: int = 1
    most: int = 3
    """Lines that it may take before all others had their turn; what is left then goes round once more."""
    urgency: int = 9
    """The lowest gets room first."""
    shorter: Sequence[Sequence[Text]] = ()
    """The same text up to the end of each of its sentences, the longest first: shown instead of a cut sentence."""
    sentences: bool = False
    """The text is prose, which may end at a comma."""


def answer(findings: Sequence[Finding], console: ReportConsole, *, room: int) -> None:
    """Writes the findings in no more lines than there is room for: the first in short, of the others their titles."""
    possible = [one for one in findings if one.possible]
    if len(possible) > 1:
        blocks = [*_possible(possible, console), *_others([one for one in findings if not one.possible], console)]
    else:
        blocks = [*_of(findings[0], console), *_others(findings[1:], console)]
    for line in _fitted(blocks, room):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


def hidden(findings: Sequence[Finding]) -> str:
    """What `-v` shows besides; empty where that is nothing."""
    first, others = findings[0], findings[1:]
    if first.possible:
        others = [one for one in others if not one.possible]
    if first.family and not first.remedies and len(findings) == 1:
        return ""
    parts = []
    if first.possible:
        if any(len(one.remedies) > len(_shown(one)) for one in findings if one.possible):
            parts.append(say("what to do if so"))
    elif (more := len(first.remedies) - 1) > 0 and not first.family:
        parts.append(say("{more} more fix{es}", more=more, es="es" if more > 1 else ""))
    if (more := len(others) - _MOST_OTHERS) > 0:
        parts.append(say("{more} more finding{s}", more=more, s="s" if more > 1 else ""))
    parts.append(say("reason, effects, sources"))
    return say("-v shows: {hidden}.", hidden=say(", ").join(parts))


def _head(finding: Finding, name: str, sure: str) -> _Block:
    place = finding.locations[0] if finding.locations else None
    where = f"  {say(place.file)}" + (f":{place.line}" if place.line else "") if place else ""
    severity = (f"[{say(finding.severity.value)}]", SEVERITY_STYLES[finding.severity])
    return _Block(lines=[Text.assemble(severity, (f" {name}", "bold"), where, (sure, "dim"))])


def _line_of(finding: Finding, console: ReportConsole) -> list[_Block]:
    place = finding.locations[0] if finding.locations else None
    if place is None or not place.note:
        return []
    return [_Block(lines=_quoted(say("line {line}", line=place.line), place.note, console), urgency=6)]


def _page(finding: Finding) -> list[_Block]:
    page = advice.page(finding)
    return [_Block(lines=[Text(f"  {padded(say('page'), _LABEL)} ", style="dim") + Text(page)])] if page else []


def _name(finding: Finding) -> str:
    return say("{id} (family)", id=finding.id) if finding.family else finding.id


def _possible(findings: Sequence[Finding], console: ReportConsole) -> list[_Block]:
    """Those between which nothing decides: of each what it is, and what tells whether it is that."""
    first = findings[0]
    blocks = [_head(first, say("not decided"), say("  one of these, the likelier first")), *_line_of(first, console)]
    for number, one in enumerate(findings, start=1):
        blocks.append(
            _Block(lines=_row(str(number), f"{_name(one)}: {one_line(one.title)}", console), most=2, urgency=2)
        )
        looks = _shown(one)
        for remedy in looks[:1]:
            blocks += _remedy(advice.label(one, remedy), remedy, console, most=2)
        for remedy in looks[1:2]:
            blocks += [replace(step, least=0) for step in _remedy("", remedy, console, most=2, leads=False)[:1]]
        if not looks:
            blocks.append(_told("why", one.why, console, urgency=4))
    return [*blocks, *_page(first)]


def _shown(finding: Finding) -> Sequence[Remedy]:
    """Its steps; of a family, or what is told by its words, that is only possible those that look: of 28 fixes that
    were shown with such answers to reports of the field 20 were wrong, and -v has them.
    """
    if finding.possible and (finding.family or finding.by_words):
        return [one for one in finding.remedies if finding.is_a_look(one)]
    return finding.remedies


def _of(finding: Finding, console: ReportConsole) -> list[_Block]:
    seen = finding.certainty == "seen"
    if finding.possible:
        sure = say("  possible family") if finding.family else say("  possible")
    elif finding.by_words:
        sure = say("  by its words")
    else:
        sure = say("  family") if finding.family else say("  confirmed") if seen else say("  likely")
    title = _Block(lines=_wrapped(one_line(finding.title), console, indent=2), urgency=2)
    blocks = [_head(finding, finding.id, sure), title, *_line_of(finding, console)]
    on = phrases.shortened(phrases.telling(finding.subjects, finding.title))
    if on:
        blocks.append(_Block(lines=_row("on", on, console)))
    done = next((fact for fact in finding.evidence if str(fact.name) == "log.work_done"), None)
    if done is not None:
        blocks.append(_Block(lines=_row("after", phrases.evidence(done), console)))
    because = [phrases.evidence(one) for one in finding.evidence if one is not done and not phrases.is_of_the_line(one)]
    if because:
        # What a message gives as its reasons tells which of a family's checks is meant.
        named = any(str(one.name) == "log.reasons" for one in finding.evidence)
        row = _row("because", "; ".join(because), console)
        blocks.append(_Block(lines=row, least=0, most=3 if named else 9, urgency=2 if named else 5))
    remedies = _shown(finding)
    if finding.why:
        label = "look" if finding.family and not remedies else "why"
        # Without room it goes first: what to do says more to whom the cause is named already.
        blocks.append(_told(label, finding.why, console, urgency=7))
    if finding.family:
        before = ""
        for remedy in remedies:
            label = advice.label(finding, remedy)
            of_first = not before
            blocks += _remedy(
                label if label != before else "", remedy, console, most=6 if of_first else 3, leads=of_first
            )
            before = label
    elif remedies:
        first, *others = remedies
        blocks += _remedy(advice.label(finding, first), first, console)
        if others:  # whom the first does not fit sees where to go on; its steps need -v
            blocks.append(_Block(lines=_row("else", others[0].title, console), urgency=5))
    elif finding.severity is not Severity.INFO and not finding.possible:
        blocks.append(_Block(lines=_row("fix", say("none is known for what the log tells"), console)))
    return [*blocks, *_page(finding)]


def _remedy(label: str, remedy: Remedy, console: ReportConsole, *, most: int = 4, leads: bool = True) -> list[_Block]:
    """The lines of a step; what another one `leads` gives its room to that one's words."""
    blocks = [_Block(lines=_row(label, remedy.title, console), most=most, urgency=3 if leads else 5, sentences=True)]
    for one in remedy.actions:
        for words in (one.action.advice, one.action.hint):
            if words:
                blocks.append(_told("", words, console, most=most, urgency=4))
        prompt = "$ " if one.action.for_a_shell else ""
        typed = map(as_typed, one.commands)
        commands = [Text.assemble(" " * (_LABEL + 3), (prompt, "dim"), (text, "green")) for text in typed]
        if commands:
            blocks.append(_Block(lines=commands, least=0, urgency=1 if leads else 4))
    if label == "fix" and remedy.safety is Safety.UNSAFE and remedy.why_this_safety:
        # "(unsafe)" behind the title left readers with the question of what would happen: the reason says it.
        changes = _sentences(remedy.why_this_safety)[0]
        blocks.append(_Block(lines=_row("unsafe", changes, console), least=0, urgency=5))
    return blocks


def _told(label: str, words: str, console: ReportConsole, *, most: int = 2, urgency: int) -> _Block:
    """A row of sentences, which is shortened at the end of one where that is possible."""
    sentences = _sentences(words)
    shorter = [_row(label, " ".join(sentences[:count]), console) for count in range(len(sentences) - 1, 0, -1)]
    rows = _row(label, words, console)
    return _Block(lines=rows, least=0, most=most, urgency=urgency, shorter=shorter, sentences=True)


def _sentences(words: str) -> list[str]:
    return _SENTENCE_END.split(one_line(words))


def _others(others: Sequence[Finding], console: ReportConsole) -> list[_Block]:
    return [
        _Block(lines=_row("or" if number == 0 else "", f"{_name(one)}: {one_line(one.title)}", console)[:1], urgency=8)
        for number, one in enumerate(others[:_MOST_OTHERS])
    ]


def _fitted(blocks: Sequence[_Block], room: int) -> list[Text]:
    """The lines of the blocks that fit: whole sentences where one fits, else cut, with a sign."""
    shown = [min(one.least, len(one.lines)) for one in blocks]
    order = sorted(range(len(blocks)), key=lambda number: blocks[number].urgency)
    for most in ([one.most for one in blocks], [len(one.lines) for one in blocks]):
        for number in order:
            left = room - sum(shown)
            shown[number] += max(0, min(left, min(most[number], len(blocks[number].lines)) - shown[number]))
    found: list[Text] = []
    for one, count in zip(blocks, shown, strict=True):
        lines = list(one.lines[:count])
        whole = next((lines for lines in one.shorter if len(lines) <= count), None)
        if count < len(one.lines) and whole:
            lines = list(whole)
        elif lines and count < len(one.lines):
            lines[-1] = _cut(lines[-1]) if one.sentences else lines[-1].copy()
            lines[-1].rstrip()
            lines[-1].append(" …")
        found += lines
    return found


def _cut(line: Text) -> Text:
    """The line up to the end of a clause, if one ends in its second half."""
    end = max(line.plain.rfind(sign) for sign in (", ", "; ", ": ", "，", "；"))
    return line[:end] if end > len(line.plain) // 2 else line.copy()


def _row(label: str, text: str, console: ReportConsole) -> list[Text]:
    lines = _wrapped(one_line(text), console, indent=_LABEL + 3)
    head = Text(f"  {padded(say(label), _LABEL)} ", style="dim") + lines[0][_LABEL + 3 :]
    return [head, *lines[1:]]


def _quoted(label: str, line: str, console: ReportConsole) -> list[Text]:
    """A row of the log's own text: broken at any character where a word as long as a path would leave a line empty."""
    rows = _row(label, line, console)
    width = max(console.width - _LABEL - 5, 40)
    text = one_line(line)
    if len(rows) < 2 or cells(rows[0].plain) > console.width // 2 or cells(text) > len(text):
        return rows
    head = Text(f"  {padded(label, _LABEL)} ", style="dim") + Text(text[:width])
    return [head, *(Text(" " * (_LABEL + 3) + text[at : at + width]) for at in range(width, len(text), width))]


def _wrapped(text: str, console: ReportConsole, *, indent: int) -> list[Text]:
    lines = console.broken(text, max(console.width - indent - 2, 40))
    return [Text(" " * indent) + line for line in lines] or [Text(" " * indent)]
