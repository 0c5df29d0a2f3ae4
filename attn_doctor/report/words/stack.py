"""A plan's commands, and what is said of it, in every format alike."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from attn_doctor.model.stack import Channel, Evidence, PlannedRelease, StackAnswer, StackPlan
from attn_doctor.report.language import say
from attn_doctor.stack.commands import install_arguments


def commands(plan: StackPlan, *, uv: bool = True) -> list[str]:
    """What a person types, in order."""
    install = ["uv", "pip", "install"] if uv else ["pip", "install"]
    return [shlex.join([*install, *words]) for words in install_arguments(plan)]


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


def title(plan: StackPlan) -> str:
    """`torch 2.13.0 (cu130)`, with the wants."""
    wanted = [f"{one.name} {one.version}".strip() for one in plan.releases if one.wanted and one.name != "torch"]
    return ", ".join([f"torch {plan.torch} ({plan.build})", *wanted])


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
        f"{title(plan)}: {plan.reason}",
    ]
    return [*lines, *(say("note: {note}", note=note) for note in plan.notes)]


def no_plan(answer: StackAnswer) -> list[str]:
    """Lines for a file of an answer without a plan."""
    lines = [f"attn-doctor plan {' '.join(answer.wants)}", say("for {words}", words=answer.node.words), say("no plan:")]
    lines += [f"  {say(' and ').join(one.wants)}: {one.words}" for one in answer.clashes]
    lines += [
        say("  instead: {title} (gives up {gives_up})", title=one.title, gives_up=one.gives_up)
        for one in answer.alternatives
    ]
    for one in answer.cohorts:
        lines.append(
            say(
                "cohort {cohort}: {title}",
                cohort=one.cohort,
                title=title(one.plans[0]) if one.plans else say("no plan"),
            )
        )
    return lines
