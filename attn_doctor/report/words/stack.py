"""A plan's commands, and what is said of it, in every format alike."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from attn_doctor.model.stack import Alternative, Channel, Clash, Evidence, PlannedRelease, StackAnswer, StackPlan
from attn_doctor.report.language import say, say_filled
from attn_doctor.stack.commands import PIP_INSTALL, install_arguments


def commands(plan: StackPlan, *, uv: bool = True) -> list[str]:
    """What a person types, in order."""
    install = ["uv", "pip", "install"] if uv else list(PIP_INSTALL)
    return [shlex.join([*install, *words]) for words in install_arguments(plan)]


def speaks_uv(plan: StackPlan) -> bool:
    """True when its commands are uv's: pip did not resolve it."""
    return not plan.resolved.startswith("pip")


def alternative_commands(one: Alternative) -> list[str]:
    """What a person types for it: its plan, then what is compiled upon that."""
    planned = commands(one.plan, uv=speaks_uv(one.plan) and not one.commands) if one.plan is not None else []
    return [*planned, *one.commands]


def clash_title(one: Clash) -> str:
    """The wants that clash, or the node."""
    return say(" and ").join(one.wants) or say("the node itself")


def ending(answer: StackAnswer, clash: Clash) -> list[Alternative]:
    """What ends that conflict, and no other."""
    return [one for one in answer.alternatives if one.ends is not None and one.ends == clash.wants]


def nearest(answer: StackAnswer) -> list[Alternative]:
    """What fulfils everything but what it gives up."""
    return [one for one in answer.alternatives if one.ends is None]


def remarks(answer: StackAnswer) -> list[str]:
    """How far the alternatives go; none where there is one conflict, and something nearest."""
    found = [say_filled(answer.dead_end)] if answer.dead_end else []
    if len(answer.clashes) > 1 and any(one.ends is not None for one in answer.alternatives):
        found.append(say("What stands under a conflict ends that one alone."))
    return found


def _offered(one: Alternative) -> str:
    if not one.gives_up:
        return one.title
    return say("{title} (gives up {gives_up})", title=one.title, gives_up=one.gives_up)


def pinned(plan: StackPlan) -> list[str]:
    """The requirements, torch with the name of its build when it comes from torch's own index."""
    if plan.channel is not Channel.TORCH_INDEX:
        return list(plan.requirements)
    own = f"torch=={plan.torch}+{plan.build}"
    return [own if one.startswith("torch==") else one for one in plan.requirements]


def indexes(plan: StackPlan) -> list[str]:
    """torch's own indexes that the plan needs, each once."""
    every = [
        plan.index if one.name == "torch" else one.url for one in plan.releases if one.channel is Channel.TORCH_INDEX
    ]
    return list(dict.fromkeys(every))


def evidence(one: PlannedRelease) -> str:
    """`proven: …`, or what else the statement rests on."""
    return f"{one.evidence.value}{f': {one.proof}' if one.proof else ''}"


def proofs(plan: StackPlan) -> Iterator[str]:
    """A line for each want and each compiled release that was looked into."""
    for one in plan.releases:
        if one.wanted or one.evidence is Evidence.PROVEN:
            yield f"{one.name} {one.version}".strip() + f", {one.channel.words}: {evidence(one)}"


def header(answer: StackAnswer, plan: StackPlan) -> list[str]:
    """Lines for the head of a file that was made from a plan."""
    lines = [
        f"attn-doctor plan {' '.join(answer.wants)}",
        say("for {words}", words=answer.node.words),
        f"{plan.words}: {plan.reason}",
    ]
    return [*lines, *(say("note: {note}", note=note) for note in plan.notes)]


def no_plan(answer: StackAnswer) -> list[str]:
    """Lines for a file of an answer without a plan."""
    lines = [f"attn-doctor plan {' '.join(answer.wants)}", say("for {words}", words=answer.node.words), say("no plan:")]
    for clash in answer.clashes:
        lines.append(f"  {clash_title(clash)}: {clash.words}")
        lines += [say("    instead: {offered}", offered=_offered(one)) for one in ending(answer, clash)]
    lines += [say("  nearest: {offered}", offered=_offered(one)) for one in nearest(answer)]
    lines += [f"  {one}" for one in remarks(answer)]
    for one in answer.cohorts:
        title = one.plans[0].words if one.plans else say("no plan")
        lines.append(say("cohort {cohort}: {title}", cohort=one.cohort, title=title))
    return lines
