"""What a person, or `plan --apply`, types to install a plan."""

from __future__ import annotations

from attn_doctor.model.stack import Channel, StackPlan

#: The pip of the environment whose `python` it is.
PIP_INSTALL = ("python", "-m", "pip", "install")


def held_torch(torch: str, build: str, channel: Channel) -> str:
    """The requirement that lets no installer take another torch; with its build where the registry's is another."""
    return f"torch=={torch}" if channel is Channel.REGISTRY else f"torch=={torch}+{build}"


def install_arguments(plan: StackPlan) -> list[list[str]]:
    """The arguments of each `pip install` or `uv pip install`, in order: torch from its own index first, since the
    others follow it."""
    lines: list[list[str]] = []
    apart = {one.name: one for one in plan.releases if one.channel is Channel.TORCH_INDEX and one.name != "torch"}
    rest = [one for one in plan.requirements if name_of(one) not in apart]
    held = []
    if plan.channel is Channel.TORCH_INDEX:
        held = [held_torch(plan.torch, plan.build, plan.channel)]
        rest = [one for one in rest if not one.startswith("torch==")]
        lines.append([*held, "--index-url", plan.index])
    # Before the rest, which would bring the registry's builds of them.
    own = [one for one in plan.requirements if name_of(one) in apart]
    lines += [[one, "--no-deps", "--index-url", apart[name_of(one)].url] for one in own]
    if rest:
        lines.append([*held, *rest])
    return lines


def name_of(requirement: str) -> str:
    """The name in a requirement of a plan."""
    return requirement.split("==")[0].split(" @")[0].split("[")[0].strip()
