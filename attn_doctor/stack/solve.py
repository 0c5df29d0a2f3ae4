"""Makes plans: builds of torch from the tables, versions and dependencies from the resolver, verdicts from recipes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from packaging.requirements import Requirement
from packaging.version import Version

from attn_doctor.model.stack import Channel, Evidence, PlannedNode, PlannedRelease, StackPlan
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.data import torch_releases
from attn_doctor.recipes.data.stack_packages import stack_package
from attn_doctor.stack.candidates import Limits, Piece, Spot, piece, spots
from attn_doctor.stack.resolver import CannotResolve, Resolved, Resolver
from attn_doctor.stack.wants import Want

#: Releases that the shelf finds fault with are excluded and the resolver asked again, at most so often.
_MOST_TRIES = 4
#: Origins of torch that are tried when the resolver finds nothing: the others have the same releases.
_MOST_ORIGINS = 3

#: (releases, node, build) -> {canonical name of the release at fault: the words of the finding}
Verdict = Callable[[Sequence[PlannedRelease], PlannedNode, Spot], "dict[str, str]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """Plans, best first; and what the resolver said where it found none."""

    plans: tuple[StackPlan, ...] = ()
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Builds of torch with one origin."""

    channel: Channel
    build: str
    """Empty for the registry: each release has its own there."""
    spots: tuple[Spot, ...]


def solve(
    wants: Sequence[Want],
    node: PlannedNode,
    limits: Limits,
    resolver: Resolver | None,
    verdict: Verdict,
    *,
    most: int = 2,
) -> Solved:
    """At most `most` plans that honour every want. Without a resolver the wants alone are planned, from the tables."""
    torch, *others = wants
    can = [one for one in spots(node, limits)[0] if torch.specifier.contains(one.torch)]
    plans: list[StackPlan] = []
    refused: list[str] = []
    for group in _groups(can):
        fitting = tuple(
            spot for spot in group.spots if all(isinstance(piece(one, spot, node), Piece) for one in others)
        )
        if not fitting:
            continue
        try:
            plans.append(_plan(wants, node, group, fitting, resolver, verdict))
        except CannotResolve as error:
            if not error.is_conflict:
                raise
            where = f"with torch of the build {group.build}" if group.build else "with the registry's torch"
            refused.append(f"{where} {error.what}: {' '.join(error.about.split())}")
        if len(plans) == most or len(refused) == _MOST_ORIGINS or (plans and _is_from_registry(plans[0])):
            break
    return Solved(plans=tuple(_ranked(plans)), refused=tuple(refused))


def _groups(can: Iterable[Spot]) -> list[_Group]:
    """The registry's builds together; each of torch's own indexes apart, newest CUDA first."""
    by_origin: dict[tuple[Channel, str], list[Spot]] = {}
    for spot in can:
        build = "" if spot.channel is Channel.REGISTRY else spot.build
        by_origin.setdefault((spot.channel, build), []).append(spot)

    def order(one: tuple[Channel, str]) -> tuple[int, float]:
        return one[0] is not Channel.REGISTRY, -max(float(spot.cuda or 0) for spot in by_origin[one])

    return [_Group(channel=key[0], build=key[1], spots=tuple(by_origin[key])) for key in sorted(by_origin, key=order)]


def _plan(
    wants: Sequence[Want],
    node: PlannedNode,
    group: _Group,
    fitting: Sequence[Spot],
    resolver: Resolver | None,
    verdict: Verdict,
) -> StackPlan:
    """Raises CannotResolve."""

    def ask(excluded: Excluded) -> tuple[Spot, tuple[Piece, ...], tuple[PlannedRelease, ...]]:
        left = [spot for spot in fitting if spot.torch not in excluded.get("torch", ())]
        if not left:
            raise CannotResolve("every build of torch is excluded", is_conflict=True)
        spot, answer = _asked(wants, node, left, resolver, excluded)
        pieces = tuple(one for want in wants[1:] if isinstance(one := piece(want, spot, node), Piece))
        return spot, pieces, _releases(wants, spot, pieces, answer)

    def at_fault(answer: tuple[Spot, tuple[Piece, ...], tuple[PlannedRelease, ...]]) -> dict[str, Fault]:
        spot, _, releases = answer
        versions = {one.name: one.version for one in releases}
        return {
            name: Fault(version=versions[name], words=words) for name, words in verdict(releases, node, spot).items()
        }

    spot, pieces, releases = settled(ask, at_fault)
    return _written(wants, spot, pieces, releases, resolver)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with one release of an answer."""

    version: str
    words: str


#: Canonical name -> versions that were at fault.
Excluded = Mapping[str, "set[str]"]
Answer = TypeVar("Answer")


def settled(ask: Callable[[Excluded], Answer], at_fault: Callable[[Answer], Mapping[str, Fault]]) -> Answer:
    """The first answer of a resolver in which nothing is at fault: what is gets excluded, and it is asked again.

    This one loop chooses the releases of `plan` and of `fix`. Raises CannotResolve: the resolver's own for the first
    question, later one with the faults.
    """
    excluded: dict[str, set[str]] = {}
    words: list[str] = []
    for _ in range(_MOST_TRIES):
        try:
            answer = ask(excluded)
        except CannotResolve:
            if not words:
                raise
            break
        faults = at_fault(answer)
        if not faults:
            return answer
        for name, fault in faults.items():
            words.append(fault.words)
            excluded.setdefault(name, set()).add(fault.version)
    about = "; ".join(dict.fromkeys(words))
    raise CannotResolve("the recipes find fault with every set", about=about, is_conflict=True)


def exclusions(excluded: Excluded) -> tuple[str, ...]:
    """What was at fault as constraints for a resolver."""
    return tuple(f"{name}!={version}" for name, versions in excluded.items() for version in sorted(versions))


def _asked(
    wants: Sequence[Want],
    node: PlannedNode,
    fitting: Sequence[Spot],
    resolver: Resolver | None,
    excluded: Excluded,
) -> tuple[Spot, tuple[Resolved, ...]]:
    """The build whose release the resolver chose, and its answer; without a resolver the newest."""
    if resolver is None:
        return fitting[0], ()
    # Pieces that the resolver cannot see differ from release to release; which releases have them was asked before.
    pieces = [one for want in wants[1:] if isinstance(one := piece(want, fitting[0], node), Piece)]
    seen = [one.requirement for one in pieces if one.requirement]
    unseen = [need for one in pieces if not one.requirement for need in _needs(one)]
    # What is released with torch is on every index that torch is on; where a person named one, it comes from there too.
    unseen += [
        f"{one.want.name}=={one.version}" for one in pieces if one.channel is Channel.TORCH_INDEX and one.version
    ]
    constraints = [f"torch{_only([one.torch for one in fitting])}"]
    answer = resolver.resolve(("torch", *seen, *unseen), (*constraints, *exclusions(excluded)), node)
    chosen = next((one.version.partition("+")[0] for one in answer if one.name == "torch"), "")
    spot = next((one for one in fitting if one.torch == chosen), None)
    if spot is None:
        raise CannotResolve(
            f"the resolver chose torch {chosen or 'of no version'}, which was not offered", is_conflict=True
        )
    return spot, answer


def _needs(one: Piece) -> tuple[str, ...]:
    row = stack_package(one.want.name)
    return row.needs if row is not None else ()


def _only(offered: Iterable[str]) -> str:
    """A specifier for these releases of torch among all that the tables know."""
    these = sorted(set(offered), key=Version)
    between = sorted(torch_releases.releases(), key=Version)
    others = [one for one in between if Version(these[0]) < Version(one) < Version(these[-1]) and one not in these]
    if len(these) == 1:
        return f"=={these[0]}"
    return ",".join([f">={these[0]}", f"<={these[-1]}", *(f"!={one}" for one in others)])


def _releases(
    wants: Sequence[Want], spot: Spot, pieces: Sequence[Piece], answer: Sequence[Resolved]
) -> tuple[PlannedRelease, ...]:
    """The wants in their order, then what they bring."""
    found = {one.name: one for one in answer}
    by_name = {one.want.name: one for one in pieces}
    listed: list[PlannedRelease] = []
    for want in wants:
        own, its = by_name.get(want.name), found.pop(want.name, None)
        channel = spot.channel if want.name == "torch" else own.channel if own is not None else Channel.REGISTRY
        if its is not None and its.version.partition("+")[2] == spot.build:
            channel = Channel.NAMED  # the resolver found this very build, among what a person named
        # The registry's file of that release is another build than the one from torch's index.
        file = its if its is not None and channel in (Channel.REGISTRY, Channel.NAMED) else None
        version = its.version if its is not None else own.version if own is not None else ""
        listed.append(
            PlannedRelease(
                name=want.name,
                version=spot.torch if want.name == "torch" else version,
                channel=channel,
                wanted=True,
                evidence=_evidence(want.name, file.file if file is not None else ""),
                url=file.url if file is not None else own.url if own is not None else "",
                file=file.file if file is not None else own.file if own is not None else "",
                size=file.size if file is not None else None,
                sha256=file.sha256 if file is not None else "",
                yanked=file.yanked if file is not None else "",
            )
        )
    if spot.channel is not Channel.REGISTRY:
        # Those are the libraries of the registry's build; torch's index brings its own.
        found = {name: one for name, one in found.items() if not name.startswith(("nvidia-", "cuda-"))}
    own_torch = spot.torch if spot.channel is Channel.REGISTRY else f"{spot.torch}+{spot.build}"
    for name in sorted(found):
        one = found[name]
        build = torch_releases.backend_for(name, installed=own_torch, cuda=spot.cuda or None)
        if build is not None and one.version.partition("+")[2] != build:
            # The registry's build of it is for another CUDA than this torch.
            url = torch_releases.index_of(build)
            listed.append(PlannedRelease(name=name, version=one.version, channel=Channel.TORCH_INDEX, url=url))
            continue
        listed.append(
            PlannedRelease(
                name=name, version=one.version, channel=Channel.REGISTRY, url=one.url, file=one.file, size=one.size,
                sha256=one.sha256, yanked=one.yanked, evidence=_evidence(name, one.file),
            )
        )  # fmt: skip
    return tuple(listed)


def _evidence(name: str, file: str) -> Evidence:
    """Before anything was opened."""
    row = stack_package(name)
    pure = file.endswith("-none-any.whl") if file else row is not None and row.bound == "python"
    return Evidence.NOTHING_COMPILED if pure else Evidence.BY_NAME


def _written(
    wants: Sequence[Want],
    spot: Spot,
    pieces: Sequence[Piece],
    releases: Sequence[PlannedRelease],
    resolver: Resolver | None,
) -> StackPlan:
    torch = next(one for one in releases if one.name == "torch")
    from_index = torch.channel is Channel.TORCH_INDEX
    extras = {want.name: f"[{','.join(want.extras)}]" if want.extras else "" for want in wants}
    requirements = []
    for one in releases:
        if not one.wanted and one.channel is not Channel.TORCH_INDEX:
            continue
        if one.channel is Channel.AUTHORS:
            requirements.append(f"{one.name} @ {one.url}")
        elif one.channel is Channel.NAMED:
            requirements.append(f"{one.name}=={one.version.partition('+')[0]}+{spot.build}")
        else:
            requirements.append(f"{one.name}{extras.get(one.name, '')}" + (f"=={one.version}" if one.version else ""))
    needs = [need for one in pieces if not one.requirement for need in _needs(one)]
    named = {Requirement(one).name for one in requirements}
    return StackPlan(
        torch=spot.torch,
        build=spot.build,
        channel=torch.channel,
        requirements=(*requirements, *(one for one in dict.fromkeys(needs) if one not in named)),
        releases=tuple(releases),
        index=(torch_releases.index_of(spot.build) if from_index else next(iter(_indexes(releases)), "")),
        reason=_reason(spot, releases),
        resolved=resolver.words if resolver is not None else "",
        notes=tuple(dict.fromkeys([*(note for one in pieces for note in one.notes), *_withdrawn(releases)])),
    )


def _withdrawn(releases: Iterable[PlannedRelease]) -> Iterator[str]:
    for one in releases:
        if one.yanked:
            why = f"{one.yanked}; installers take it because exactly it is asked for"
            yield f"{one.name} {one.version} is yanked: {why}"


def _indexes(releases: Iterable[PlannedRelease]) -> list[str]:
    return [one.url for one in releases if one.channel is Channel.TORCH_INDEX]


def _reason(spot: Spot, releases: Sequence[PlannedRelease]) -> str:
    away = [one for one in releases if one.channel is not Channel.REGISTRY]
    if not away:
        return "everything comes from the package registry"
    words = [f"{one.name} comes from {one.channel.words}" for one in away]
    return "; ".join(words)


def _is_from_registry(plan: StackPlan) -> bool:
    return all(one.channel is Channel.REGISTRY for one in plan.releases)


def _ranked(plans: Iterable[StackPlan]) -> list[StackPlan]:
    """Fewest releases from other places than the registry first, then the newest torch."""
    return sorted(
        plans,
        key=lambda one: (
            sum(release.channel is not Channel.REGISTRY for release in one.releases),
            [-part for part in Version(one.torch).release],
        ),
    )
