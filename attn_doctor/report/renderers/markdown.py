"""`markdown`: the report for pasting into an issue; names of users and machines are masked by default."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from attn_doctor.machine import faults
from attn_doctor.machine.files import expanded
from attn_doctor.machine.printable import harmless, one_line
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Finding
from attn_doctor.model.report import Report
from attn_doctor.report.renderer import CHECK, EXPLAIN, TRACE, Manner, Media, Page, Renderer
from attn_doctor.report.words import phrases, verdict

if TYPE_CHECKING:
    from attn_doctor.model.kernels import KernelTrials

#: Lines that are meant as HTML.
_OURS = ("<details><summary>Facts</summary>", "</details>")
_ACTS = re.compile(r"<(?=[a-zA-Z/!?])|\*|_(?=_)|(?<=_)_|(?<=\])\(")


def write(report: Report, stream: IO[str], manner: Manner) -> None:
    """Writes the whole report."""
    verbose, masked, hosts = manner.verbose, manner.masked, _hosts(report)
    lines = [f"**{verdict.counted(report)}**", "", f"- {one_line(phrases.examined(report))}"]
    if report.examined.python:
        lines += faults.lines("head", partial(_head, report.facts))
    lines.append("")
    before, kernels = lines, []  # kernels take care of their own words
    if report.kernels is not None:
        kernels = faults.lines("kernels", partial(_kernels, report.kernels, verbose=verbose))
    lines = []
    for finding in report.diagnosis.findings:
        lines += faults.lines(f"finding {finding.id}", partial(_finding, finding))
    if report.diagnosis.open_questions:
        lines += ["### Open questions", ""]
        for reason, recipes in phrases.by_reason(report.diagnosis.open_questions).items():
            lines.append(f"- {one_line(reason)}: {', '.join(recipes)}")
        lines.append("")
    lines += [f"{line}  " for line in verdict.lines(report)]
    if verbose:
        lines += ["", "<details><summary>Facts</summary>", "", "```"]
        lines += [f"{phrases.said(fact)}  [{fact.how}]".replace("```", "'''") for fact in report.facts.values()]
        lines += ["```", "", "</details>"]
    for part, words in ((before, escaped), (kernels, str), (lines, escaped)):
        text = "".join(f"{line}\n" for line in part)
        text = harmless(text)
        stream.write(words(mask(text, hosts=hosts) if masked else text))


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
    own = socket.gethostname()
    return (name, name.partition(".")[0], own, own.partition(".")[0])


def _finding(finding: Finding) -> list[str]:
    place = finding.locations[0] if finding.locations else None
    where = f" `{place.file}{f':{place.line}' if place.line else ''}`" if place else ""
    lines = [f"### [{finding.severity.value}] {finding.id}{one_line(where)}", "", one_line(finding.title), ""]
    lines += [f"> {one_line(one.note)}" for one in finding.locations[:1] if one.note] + [""]
    lines += [f"- because {one_line(phrases.evidence(fact))} (`{one_line(fact.how)}`)" for fact in finding.evidence]
    lines += [f"- causes: {one_line(symptom.title)}" for symptom in finding.symptoms]
    lines += ["", finding.why, ""]
    lines += [f"Note: {finding.known_problems.strip()}", ""] if finding.known_problems else []
    for number, remedy in enumerate(finding.remedies, start=1):
        why = f": {remedy.why_this_safety}" if remedy.why_this_safety else ""
        lines.append(f"{number}. {remedy.title} ({remedy.safety.value}{why})")
        lines += [f"   ```\n   {command}\n   ```" for action in remedy.actions for command in action.commands]
    lines += ["", f"Confidence: {phrases.confidence(finding)}. {' '.join(finding.references)}", ""]
    return lines


def _kernels(trials: KernelTrials, *, verbose: bool) -> Iterator[str]:
    """Wrong results first, then the table, then the trials that were not run, with reasons."""
    from attn_doctor.report.words import kernels as table

    yield f"### Kernels: {_plain(table.title(trials))}"
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
