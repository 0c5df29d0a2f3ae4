"""The answer to `plan` for people."""

from __future__ import annotations

from typing import IO

from rich.console import Console
from rich.text import Text

from attn_doctor.model.stack import Alternative, Evidence, StackAnswer, StackPlan
from attn_doctor.report.language import say
from attn_doctor.report.terminal.console import ReportConsole
from attn_doctor.report.words import stack as words
from attn_doctor.report.words.cells import padded


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
        words = say("{lacking} without a plan", lacking=lacking) if lacking else say("each has a plan")
        console.print(
            Text(
                say("{cohorts} cohorts, no one plan serves all: {words}.", cohorts=len(answer.cohorts), words=words),
                style="bold",
            )
        )


def _answer(console: Console, answer: StackAnswer, *, verbose: bool) -> None:
    if answer.cohort:
        _row(console, "cohort", answer.cohort)
    _row(console, "node", answer.node.words)
    for assumed in answer.node.assumed:
        _row(console, "assumed", assumed)
    for note in answer.notes:
        _row(console, "note", note)
    for number, plan in enumerate(answer.plans, start=1):
        console.print()
        _plan(
            console,
            plan,
            say("[plan {number}]", number=number) if len(answer.plans) > 1 else say("[plan]"),
            verbose=verbose,
        )
    for clash in answer.clashes:
        console.print()
        console.print(
            Text(say("[conflict] {wants}", wants=say(" and ").join(clash.wants)), style="bold red"), soft_wrap=True
        )
        _row(console, "why", clash.words)
        for source in clash.sources if verbose else clash.sources[:1]:
            _row(console, "source", source)
    for one in answer.alternatives:
        console.print()
        _alternative(console, one, verbose=verbose)
    console.print()
    for state in answer.channels:
        _row(console, "channel", f"{state.channel.words}: {state.words}")
    if answer.downloaded:
        _row(console, "read", say("{downloaded:,} bytes of wheels, for proofs", downloaded=answer.downloaded))
    _verdict(console, answer)


def _plan(console: Console, plan: StackPlan, head: str, *, verbose: bool) -> None:
    console.print(Text(f"{head} {words.title(plan)}", style="bold"), soft_wrap=True)
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
    for line in words.commands(plan, uv=not plan.resolved.startswith("pip")):
        _row(console, "run", line)


def _alternative(console: Console, one: Alternative, *, verbose: bool) -> None:
    console.print(Text(say("[instead] {title}", title=one.title), style="bold"), soft_wrap=True)
    _row(console, "gives up", one.gives_up)
    if one.plan is not None:
        for line in words.commands(one.plan, uv=not one.plan.resolved.startswith("pip")):
            _row(console, "run", line)
        if verbose:
            _row(console, "because", one.plan.reason)
    elif one.command:
        _row(console, "run", one.command)


def _verdict(console: Console, answer: StackAnswer) -> None:
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
    console.print(
        Text(
            say("{count} plan{s}; the first: {proven}.", count=count, s="s" * (count != 1), proven=proven),
            style="bold green",
        )
    )


def _row(console: Console, label: str, text: str) -> None:
    console.print(Text.assemble((f"  {padded(say(label), 9)}", "dim"), text), soft_wrap=True)
