"""The answer to `plan` for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from rich.text import Text

from attn_doctor.model.stack import Alternative, Evidence, StackAnswer, StackPlan
from attn_doctor.report.language import say
from attn_doctor.report.terminal.console import ReportConsole
from attn_doctor.report.words import stack as words
from attn_doctor.report.words.cells import cells, padded

_INDENT = 11


def write(answer: StackAnswer, stream: IO[str], *, verbose: bool) -> None:
    """Prints the whole answer."""
    console = ReportConsole(stream)
    _answer(console, answer, verbose=verbose)
    for one in answer.cohorts:
        console.print()
        _answer(console, one, verbose=verbose)
    if answer.cohorts:
        console.print()
        lacking = sum(not one.plans for one in answer.cohorts)
        rest = say("{lacking} without a plan", lacking=lacking) if lacking else say("each has a plan")
        text = say("{cohorts} cohorts, no one plan serves all: {words}.", cohorts=len(answer.cohorts), words=rest)
        console.print(Text(text, style="bold"))


def _answer(console: ReportConsole, answer: StackAnswer, *, verbose: bool) -> None:
    _verdict(console, answer)
    if answer.cohort:
        _row(console, "cohort", answer.cohort)
    _row(console, "wants", ", ".join(answer.wants))
    _row(console, "node", answer.node.words)
    for assumed in answer.node.assumed:
        _row(console, "assumed", assumed)
    for note in answer.notes:
        _row(console, "note", note)
    for number, plan in enumerate(answer.plans, start=1):
        console.print()
        head = say("[plan {number}]", number=number) if len(answer.plans) > 1 else say("[plan]")
        _plan(console, plan, head, verbose=verbose)
    _conflicts(console, answer, verbose=verbose)
    console.print()
    for state in answer.channels:
        _row(console, "channel", f"{state.channel.words}: {state.words}")
    if answer.downloaded:
        _row(console, "read", say("{downloaded:,} bytes of wheels, for proofs", downloaded=answer.downloaded))


def _conflicts(console: ReportConsole, answer: StackAnswer, *, verbose: bool) -> None:
    """Each conflict with what ends it, then what fulfils all but what it gives up."""
    for clash in answer.clashes:
        console.print()
        console.print(Text(say("[conflict] {wants}", wants=words.clash_title(clash)), style="bold red"))
        _row(console, "why", clash.words)
        for source in clash.sources if verbose else clash.sources[:1]:
            _row(console, "source", source)
        for one in words.ending(answer, clash):
            _alternative(console, one, f"  {padded(say('instead'), 9)}", verbose=verbose)
    for one in words.nearest(answer):
        console.print()
        _alternative(console, one, say("[nearest] "), verbose=verbose)
    remarks = words.remarks(answer)
    if remarks:
        console.print()
    for remark in remarks:
        console.print(Text(remark))


def _plan(console: ReportConsole, plan: StackPlan, head: str, *, verbose: bool) -> None:
    console.print(Text(f"{head} {plan.words}", style="bold"))
    _row(console, "because", plan.reason)
    for line in words.proofs(plan):
        _row(console, "wheel", line)
    for note in plan.notes:
        _row(console, "note", note)
    if verbose:
        for one in plan.releases:
            if not one.wanted:
                _row(console, "brings", f"{one.name} {one.version}")
    elif plan.resolved:
        brought = sum(not one.wanted for one in plan.releases)
        _row(
            console,
            "brings",
            say("{brought} other packages, resolved by {resolved}", brought=brought, resolved=plan.resolved),
        )
    _commands(console, words.commands(plan, uv=words.speaks_uv(plan)))


def _alternative(console: ReportConsole, one: Alternative, head: str, *, verbose: bool) -> None:
    indent = cells(head)
    title = console.broken(one.title, max(console.width - indent, 40))
    for number, line in enumerate(title):
        console.whole(Text.assemble(head if number == 0 else " " * indent, (line.plain, "bold")))
    if one.gives_up:
        _row(console, "gives up", one.gives_up)
    if one.needs:
        _row(console, "needs", one.needs)
    if one.plan is not None and verbose:
        _row(console, "because", one.plan.reason)
    _commands(console, words.alternative_commands(one))


def _commands(console: ReportConsole, lines: Sequence[str]) -> None:
    """Each on a line of its own, whole: they are there to be copied."""
    if not lines:
        return
    active = lines[0].startswith("uv ")
    where = say("in the active environment") if active else say("in the environment, with its own python")
    _row(console, "run", say("{where}, in this order:", where=where) if len(lines) > 1 else f"{where}:")
    for line in lines:
        console.whole(Text(f"    {line}"))


def _verdict(console: ReportConsole, answer: StackAnswer) -> None:
    if not answer.plans:
        console.print(Text(say("No plan: nothing fulfils every want on this node."), style="bold red"))
        return
    named = [one.name for one in answer.plans[0].releases if one.wanted and one.evidence is Evidence.BY_NAME]
    proven = (
        say("known by name alone: {named}", named=", ".join(named))
        if named
        else say("every compiled wheel that is wanted is proven")
    )
    count = len(answer.plans)
    text = say("{count} plan{s}; the first: {proven}.", count=count, s="s" * (count != 1), proven=proven)
    console.print(Text(text, style="bold green"))


def _row(console: ReportConsole, label: str, text: str) -> None:
    for number, line in enumerate(console.broken(text, max(console.width - _INDENT, 40))):
        console.whole(Text.assemble((f"  {padded(say(label) if number == 0 else '', 9)}", "dim"), line))
