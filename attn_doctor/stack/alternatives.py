"""What can be done where the wants cannot be had as they are: each is looked up in the tables before it is offered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from packaging.specifiers import SpecifierSet

from attn_doctor.model.stack import Alternative, Clash, PlannedNode
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.data.drivers import oldest_for_cuda
from attn_doctor.recipes.data.stack_packages import StackPackage, stack_package
from attn_doctor.stack.candidates import Limits, Piece, Spot, piece, spots
from attn_doctor.stack.from_source import compiled
from attn_doctor.stack.nearest import Solve, nearest
from attn_doctor.stack.wants import Want

#: Said where `nearest` finds nothing.
NO_OTHER = "No other release of torch or of a pinned want fulfils all the rest."

_ROCM = "https://pytorch.org/get-started/locally/"

_AT_A_TIME = 4


def alternatives(
    wants: Sequence[Want],
    node: PlannedNode,
    limits: Limits,
    clashes: Sequence[Clash],
    solve: Solve,
    published: Callable[[Want], str] = lambda want: "",
) -> tuple[Alternative, ...]:
    """What fulfils all the rest first: other releases, a build, another node. Then what ends one conflict: another
    release, another kernel, the source, torch's own. `published`: the release of a want that an index has.
    """
    if node.amd:
        return (
            Alternative(
                title=f"torch for ROCm, which the shelf has no table of: {_ROCM} names its index for {node.amd}",
                gives_up="whatever of the wants has no build for ROCm",
            ),
        )
    of = {words: clash.wants for clash in reversed(clashes) for words in clash.wants}
    stuck = set(of)
    unpublished = {one.wants[0] for one in clashes if one.unpublished}
    # Each is looked up by itself: the resolver, another process, is asked about several at a time.
    looked_up: list[Callable[[], Iterable[Alternative]]] = []
    looked_up.append(lambda: nearest(wants, node, limits, solve))
    if limits.build or limits.cuda:
        looked_up.append(lambda: _other_build(wants, node, limits, solve))
    # The resolver says so when a release has no wheel for that Python, which no table knows.
    for_python = any("CPython" in one.words for one in clashes)
    looked_up.append(lambda: _other_node(wants, node, limits, solve, for_python=for_python))
    clashing = [one for one in wants[1:] if one.words in stuck]
    alone = len(clashes) == 1

    def ending(want: Want) -> Iterator[Alternative]:
        for one in _instead_of(
            want, wants, stuck, node, limits, solve, published, alone=alone, unpublished=unpublished
        ):
            yield replace(one, ends=of[want.words])

    looked_up += [partial(ending, one) for one in clashing]
    with ThreadPoolExecutor(max_workers=_AT_A_TIME) as threads:
        found = threads.map(lambda look: list(look()), looked_up)
        return tuple(one for several in found for one in several)


def _other_build(wants: Sequence[Want], node: PlannedNode, limits: Limits, solve: Solve) -> Iterator[Alternative]:
    plan = solve(wants, node, Limits())
    if plan is not None:
        what = f"--torch-backend {limits.build}" if limits.build else f"--cuda {limits.cuda}"
        yield Alternative(title=f"another build of torch: {plan.torch} ({plan.build})", gives_up=what, plan=plan)


def _other_node(
    wants: Sequence[Want], node: PlannedNode, limits: Limits, solve: Solve, *, for_python: bool
) -> Iterator[Alternative]:
    """A newer driver, or another Python, when that is what stands in the way: more builds of torch fit then."""
    before = _fitting(wants, node, limits)
    newer = replace(node, driver="")
    if node.driver and _fitting(wants, newer, limits) - before:
        plan = solve(wants, newer, limits)
        if plan is not None and plan.build.startswith("cu"):
            oldest = oldest_for_cuda(int(plan.build[2:4])) or "a newer one"
            yield Alternative(
                title=f"with driver {oldest} or later: torch {plan.torch} ({plan.build})",
                gives_up=f"driver {node.driver}",
                plan=plan,
            )
            return
    major, minor = map(int, node.python.split("."))
    for other in (minor - 1, minor + 1, minor - 2, minor + 2):
        where = replace(node, python=f"{major}.{other}")
        plan = solve(wants, where, limits) if for_python or _fitting(wants, where, limits) - before else None
        if plan is not None:
            title = f"with Python {major}.{other}: torch {plan.torch} ({plan.build})"
            yield Alternative(title=title, gives_up=f"Python {node.python}", plan=plan)
            return


def _fitting(wants: Sequence[Want], node: PlannedNode, limits: Limits) -> set[Spot]:
    """The builds of torch beside which the tables know an obstacle to none of the wants."""
    torch, *others = wants
    can = [one for one in spots(node, limits)[0] if torch.specifier.contains(one.torch)]
    return {spot for spot in can if all(isinstance(piece(one, spot, node), Piece) for one in others)}


def _instead_of(
    want: Want,
    wants: Sequence[Want],
    stuck: Set[str],
    node: PlannedNode,
    limits: Limits,
    solve: Solve,
    published: Callable[[Want], str],
    *,
    alone: bool,
    unpublished: Set[str],
) -> Iterator[Alternative]:
    """What ends the conflict of one want. `alone`: there is no other conflict, and the others can be planned for."""
    row = stack_package(want.name)
    torch = wants[0]
    rest = tuple(one for one in wants if one.name != want.name)
    can = [one for one in spots(node, limits)[0] if torch.specifier.contains(one.torch)]
    if not can:
        return
    calm = [one for one in rest if one is torch or one.words not in stuck]
    if want.specifier and not alone:
        plan = solve((*calm, replace(want, specifier=SpecifierSet())), node, limits)
        found = next((one.version for one in plan.releases if one.name == want.name), "") if plan is not None else ""
        if plan is not None and found:
            yield Alternative(title=f"{want.name} {found} beside torch {plan.torch}", gives_up=want.words, plan=plan)
    if row is None:
        return
    if _takes(row, node):
        yield from _from_hub(want, row, rest, can, node, limits, solve)
        if row.build is not None and want.words not in unpublished:
            plan = solve(rest, node, limits) if alone else None
            yield from compiled(want, row, row.build, calm, can, node, plan, published)
    if row.instead:
        yield Alternative(title=row.instead, gives_up=want.words, plan=solve(rest, node, limits) if alone else None)


def _takes(row: StackPackage, node: PlannedNode) -> bool:
    if node.amd:
        return False
    return not row.gpus or any(all(map(one.takes, node.capabilities)) for one in row.gpus)


def _from_hub(
    want: Want,
    row: StackPackage,
    rest: tuple[Want, ...],
    can: Sequence[Spot],
    node: PlannedNode,
    limits: Limits,
    solve: Solve,
) -> Iterator[Alternative]:
    hub = row.hub
    if hub is None or not any(hub.torch.contains(one.torch) for one in can):
        return
    torch = replace(rest[0], specifier=rest[0].specifier & hub.torch)
    kernels = next((one for one in rest if one.name == "kernels"), Want(name="kernels", typed="kernels"))
    plan = solve((torch, *(one for one in rest[1:] if one.name != "kernels"), kernels), node, limits)
    yield Alternative(
        title=f"the Hub kernel {hub.name}",
        needs=f'attn_implementation="{hub.name}" in transformers; the kernels package downloads it at the first run, '
        "which a node without a network cannot do",
        gives_up=f"the package {want.name}: code that imports it does not find it",
        plan=plan,
    )
