"""`markdown`: the report for pasting into an issue; names of users and machines are masked by default."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from attn_doctor.machine import faults
from attn_doctor.machine.files import expanded
from attn_doctor.machine.printable import harmless, one_line
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Finding
from attn_doctor.model.report import Report
from attn_doctor.report.language import say, say_filled
from attn_doctor.report.renderer import CHECK, EXPLAIN, TRACE, Manner, Media, Page, Renderer
from attn_doctor.report.words import advice, phrases, places, verdict

if TYPE_CHECKING:
    from attn_doctor.model.kernels import KernelTrials
    from attn_doctor.model.trace import Trace

#: Lines that are meant as HTML.
_OURS = ("<details><summary>Facts</summary>", "</details>")
#: GitHub takes 65,536 characters in an issue or a comment, GitLab and others more.
_MOST = 65_000
#: Columns of a code block on a page of an issue.
_CODE_WIDTH = 100
_ACTS = re.compile(r"<(?=[a-zA-Z/!?])|\*|_(?=_)|(?<=_)_|(?<=\])\(")


def write(report: Report, stream: IO[str], manner: Manner) -> None:
    """Writes the whole report."""
    verbose, masked, hosts = manner.verbose, manner.masked, _hosts(report)
    lines = [f"**{verdict.counted(report)}**", "", f"- {one_line(phrases.examined(report))}"]
    if report.examined.python:
        lines += faults.lines("head", partial(_head, report.facts))
    lines.append("")
    before, kernels = lines, []  # kernels take care of their own words
    if report.trace is not None:
        before += faults.lines("trace", partial(_trace, report.trace))
    if report.kernels is not None:
        kernels = faults.lines("kernels", partial(_kernels, report.kernels, verbose=verbose))
    lines, told = [], set[tuple[object, ...]]()
    for finding in report.diagnosis.findings:
        again = (finding.id, finding.why, tuple(one.title for one in finding.remedies)) in told
        told.add((finding.id, finding.why, tuple(one.title for one in finding.remedies)))
        lines += faults.lines(f"finding {finding.id}", partial(_finding, finding, again=again))
    if report.diagnosis.open_questions:
        lines += [say("### Open questions"), ""]
        for reason, recipes in phrases.by_reason(report.diagnosis.open_questions).items():
            lines.append(f"- {one_line(reason)}: {', '.join(recipes)}")
        lines.append("")
    lines += [f"{line}  " for line in verdict.lines(report)]
    facts: list[str] = []
    if verbose:
        said = (f"{phrases.said(fact)}  [{fact.how}]" for fact in report.facts.values())
        facts = [line.replace("```", "'''") for line in said]
    used = 0
    for part, words in ((before, escaped), (kernels, str), (lines, escaped)):
        text = _masked(part, hosts if masked else None, words)
        text = text if used + len(text) <= _MOST else _cut(text, _MOST - used)
        used += len(text)
        stream.write(text)
    if facts:
        stream.write(_folded(_masked(facts, hosts if masked else None, str), _MOST - used))


def _masked(part: list[str], hosts: tuple[str, ...] | None, words: Callable[[str], str]) -> str:
    text = harmless("".join(f"{line}\n" for line in part))
    return words(text if hosts is None else mask(text, hosts=hosts))


def _cut(text: str, room: int) -> str:
    """As many whole lines as fit, with a note; a code block that is cut is closed."""
    note = say("\n… cut here: GitHub takes no longer text; `--format json` has all of it.\n")
    kept = text[: max(room - len(note) - 8, 0)].rpartition("\n")[0]
    fence = "\n```" if sum(line.lstrip().startswith("```") for line in kept.split("\n")) % 2 else ""
    return f"{kept}{fence}\n{note}" if room > len(note) + 8 else ""


def _folded(facts: str, room: int) -> str:
    """The facts, as many as there is room for."""
    head, foot = f"\n{_OURS[0]}\n\n```\n", f"```\n\n{_OURS[1]}\n"
    room -= len(head) + len(foot)
    if len(facts) > room:
        kept = facts[: max(room - 80, 0)].rpartition("\n")[0]
        facts = (
            say(
                "{kept}\n… and {number} more\n",
                kept=kept,
                number=facts.count(chr(10)) - kept.count(chr(10)) - bool(kept),
            )
            if kept
            else ""
        )
    return f"{head}{facts}{foot}" if facts else ""


def _trace(trace: Trace) -> Iterator[str]:
    """Each call's source lines with the dtypes after them, as the terminal shows them."""
    from attn_doctor.report.words import dtype_path, excerpt

    yield one_line(
        say("Traced {words}: {rules}", words=trace.words, rules=say_filled(trace.rules))
        if trace.words
        else say_filled(trace.rules)
    )
    yield ""
    yield from (f"- {one_line(say_filled(words))}" for words in trace.stood_in)
    for call in trace.calls:
        times = f" ×{call.calls}" if call.calls > 1 else ""
        at = say(" at `{place}`", place=one_line(str(call.place))) if call.place else ""
        yield ""
        yield f"### {verdict.of_trace(call.verdict)}: {one_line(call.name)}{times}{at}"
        yield ""
        yield from (f"- {one_line(say_filled(words))}" for words in (call.stand_in, call.error) if words)
        yield say("- gets {gets}", gets=dtype_path.gets(call))
        if call.verdict != "clean":
            yield ""
            yield "```text"
            for line, _ in excerpt.lines(dtype_path.listing(call, trace, whole=True), width=_CODE_WIDTH):
                yield line.replace("```", "'''")
            yield "```"
    if trace.counterfactual:
        yield ""
        yield one_line(say_filled(trace.counterfactual))
    if trace.error:
        yield ""
        yield one_line(trace.error)
    yield ""


def _head(facts: FactSet) -> Iterator[str]:
    lines = (
        phrases.node(facts), *phrases.gpus(facts), phrases.stack(facts), *phrases.samples(facts),
        *phrases.configs(facts),
    )  # fmt: skip
    return (f"- {one_line(line)}" for line in lines)


def escaped(text: str) -> str:
    """The text with markup characters escaped outside code: `<host>` would vanish as a tag, `<!--` would hide the rest,
    and `__init__` would be bold."""
    lines, fenced = [], False
    for line in text.split("\n"):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and line not in _OURS and not line.startswith("**"):
            parts = re.split(r"(`[^`]*`)", line)
            line = "".join(part if number % 2 else _ACTS.sub(r"\\\g<0>", part) for number, part in enumerate(parts))
        lines.append(line)
    return "\n".join(lines)


def mask(text: str, *, hosts: tuple[str, ...]) -> str:
    """The text without the user's name, home folder and the host's names."""
    home = str(expanded(Path("~")))
    user = _user()
    if len(home) > 1:
        text = text.replace(home, "~")
    text = re.sub(r"/(home|Users)/[^/\s:]+", r"/\1/<user>", text)
    # A name of one or two letters would also match inside other words; root is the same everywhere.
    if len(user) > 2 and user != "root":
        text = re.sub(rf"(?<![\w]){re.escape(user)}(?![\w])", "<user>", text)
    for host in sorted(set(hosts), key=len, reverse=True):
        if host:
            text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "<host>", text)
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without an entry for this user
        return ""


def _hosts(report: Report) -> tuple[str, ...]:
    name = report.facts.text("node.hostname") or ""
    import socket  # slow to import, and every command imports this file for the format's name

    own = socket.gethostname()
    return (name, name.partition(".")[0], own, own.partition(".")[0])


def _finding(finding: Finding, *, again: bool = False) -> list[str]:
    place = places.place_of(finding)
    where = f" `{one_line(place.file)}{f':{place.line}' if place.line else ''}`" if place else ""
    lines = [f"### [{say(finding.severity.value)}] {finding.id}{where}", "", one_line(finding.title), ""]
    lines += [f"> {one_line(one.note)}" for one in finding.locations[:1] if one.note] + [""]
    lines += [
        say("- because {evidence} (`{how}`)", evidence=one_line(phrases.evidence(fact)), how=one_line(fact.how))
        for fact in finding.evidence
    ]
    lines += [say("- causes: {title}", title=one_line(symptom.title)) for symptom in finding.symptoms]
    if again:
        return [*lines, "", say("Why and fix as above."), ""]
    lines += ["", finding.why, ""]
    lines += (
        [say("Note: {known_problems}", known_problems=finding.known_problems.strip()), ""]
        if finding.known_problems
        else []
    )
    for number, remedy in enumerate(finding.remedies, start=1):
        why = say(": {why}", why=remedy.why_this_safety) if remedy.why_this_safety else ""
        label = f"{say(advice.label(finding, remedy)).capitalize()}: " if finding.possible else ""
        lines.append(f"{number}. {label}{remedy.title} ({say(remedy.safety.value)}{why})")
        lines += [f"   {words}" for words in advice.by_hand(remedy)]
        lines += [f"   ```\n   {command}\n   ```" for command, _ in advice.commands(remedy)]
    lines += [
        "",
        say(
            "Confidence: {confidence}. {references}",
            confidence=phrases.confidence(finding),
            references=" ".join(finding.references),
        ),
        "",
    ]
    if page := advice.page(finding, shown_around=True):
        lines += [f"{say('The whole page:')} {page if page.startswith('https://') else f'`{page}`'}", ""]
    return lines


def _kernels(trials: KernelTrials, *, verbose: bool) -> Iterator[str]:
    """Wrong results first, then the table, then the trials that were not run, with reasons."""
    from attn_doctor.report.words import kernels as table

    yield say("### Kernels: {plain}", plain=_plain(table.title(trials)))
    yield ""
    gpus = [f"- {_plain(line)}" for line in table.gpus(trials, verbose=verbose)]
    yield from (*gpus, "") if gpus else ()
    if trials.ran:
        yield from _ran_kernels(trials, verbose=verbose)
    else:
        first, *rest = table.plan(trials)
        yield _plain(first.words)
        yield ""
        yield from (f"{'  ' * line.depth}- {_plain(line.words)}" for line in rest)
    yield ""


def _ran_kernels(trials: KernelTrials, *, verbose: bool) -> Iterator[str]:
    from attn_doctor.report.words import kernels as table

    troubles = [f"- **{one.mark} {_plain(one.head)}**: {_plain(one.words)}" for one in table.troubles(trials)]
    yield from (*troubles, "") if troubles else ()
    if words := table.all_right(trials):
        yield from (words, "")
    for gpus in table.alike(trials):
        yield f"| {table.where(gpus)} | {' | '.join(table.HEADS.values())} |"
        yield "| --- |" + " --- |" * len(table.HEADS)
        for name, squares in table.rows(trials, gpus[0]):
            yield f"| {_plain(name)} | {' | '.join(square.words for square in squares)} |"
        yield ""
    yield from (f"- {_plain(line)}" for line in table.below(trials, verbose=verbose))


def _plain(words: str) -> str:
    """On one line, read as it is. Underscores stay: names of people are masked afterwards, and must be found."""
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", one_line(words))


RENDERER = Renderer(
    "markdown",
    suffixes=(".md", ".markdown"),
    media=Media.PERSON,
    pages=(Page(CHECK, write), Page(TRACE, write), Page(EXPLAIN, write)),
)
