"""What a person types to compile a want: it is compiled, from that release, and torch stays as it is."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from attn_doctor.model.stack import Alternative, Channel, PlannedNode, StackPlan
from attn_doctor.recipes.data import wheels
from attn_doctor.recipes.data.checked import newest_checked
from attn_doctor.recipes.data.stack_packages import FromSource, StackPackage
from attn_doctor.recipes.data.torch_releases import index_of
from attn_doctor.stack.candidates import Piece, Spot, for_gpus, piece
from attn_doctor.stack.commands import PIP_INSTALL, held_torch
from attn_doctor.stack.wants import Want


def compiled(
    want: Want,
    row: StackPackage,
    build: FromSource,
    calm: Sequence[Want],
    can: Sequence[Spot],
    node: PlannedNode,
    plan: StackPlan | None,
    published: Callable[[Want], str],
) -> Iterator[Alternative]:
    """The want compiled for the torch of `plan`, which holds all other wants; without one for the first of `can` that
    goes with `calm`, those of the other wants that are in no conflict. `published`: the release that an index has."""
    if plan is not None:
        spot = next((one for one in can if (one.torch, one.build) == (plan.torch, plan.build)), None)
    else:
        others = [one for one in calm if one.name != "torch"]
        spot = next((one for one in can if all(isinstance(piece(each, one, node), Piece) for each in others)), None)
    if spot is None or not spot.cuda:
        return
    version = _release(want, node, published)
    if row.stable_from and version and row.bound_at(version) == "stable-abi":
        return  # its wheel serves its torch and all later ones; an older torch its source refuses as well
    needs = f"{build.needs}. Minutes: {build.minutes}"
    if build.checkout:
        yield Alternative(
            title=f"compile {want.name} for {spot.words}, from {build.checkout}", gives_up="", needs=needs, plan=plan
        )
        return
    commands = _commands(want, row, build, version, spot, installs_torch=plan is None) if version else ()
    yield Alternative(
        title=f"compile {want.name} {version or '(name a release)'} for {spot.words}",
        gives_up="",
        needs=needs,
        commands=tuple(commands),
        plan=plan,
    )


def _commands(
    want: Want, row: StackPackage, build: FromSource, version: str, spot: Spot, *, installs_torch: bool
) -> Iterator[str]:
    torch = held_torch(spot.torch, spot.build, spot.channel)
    if installs_torch and spot.channel is Channel.TORCH_INDEX:
        yield shlex.join([*PIP_INSTALL, torch, "--index-url", index_of(spot.build)])
    yield shlex.join([*PIP_INSTALL, torch, *build.tools])
    core = [row.core.format(major=spot.cuda.partition(".")[0])] if row.core else []
    extras = sorted({*want.extras, *row.extras, *core})
    requirement = f"{want.name}[{','.join(extras)}]=={version}" if extras else f"{want.name}=={version}"
    # pip keeps the wheels that it built, for whatever torch, and takes them for source.
    words = [*PIP_INSTALL, "--no-build-isolation", "--no-cache-dir", "--no-binary", build.source, torch, requirement]
    yield " ".join([*build.environment, shlex.join(words)])


def _release(want: Want, node: PlannedNode, published: Callable[[Want], str]) -> str:
    """The release that is compiled: the pinned one, else the newest that is known and taken; empty when none is."""
    if want.pin:
        return want.pin
    wanted = for_gpus(want, node)
    known = {*wheels.versions(want.name), newest_checked().get(want.name, "")} - {""}
    taken = [one for one in known if isinstance(wanted, SpecifierSet) and wanted.contains(one)]
    return max(taken, key=Version, default="") or published(want)
