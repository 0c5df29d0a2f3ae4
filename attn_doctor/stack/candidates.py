"""Which builds of torch serve a node, and from which channel each want can come beside each of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from attn_doctor.model.stack import Channel, PlannedNode
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.data import torch_releases, wheels
from attn_doctor.recipes.data.drivers import oldest_for_cuda
from attn_doctor.recipes.data.stack_packages import StackPackage, as_capability, stack_package
from attn_doctor.recipes.data.torch_pythons import has_wheels_for, pythons
from attn_doctor.recipes.data.torch_releases import Build
from attn_doctor.stack.wants import Want

#: Builds for CPUs are on an index of their own, for every release.
CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a person fixed of torch's build."""

    cuda: str = ""
    """major, or major.minor"""
    build: str = ""
    """cu130, or cpu"""
    registry_is_cpu: bool = False
    """Nothing but CPU builds comes from the registry that is asked; set for trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """One build of torch that can be had."""

    torch: str
    cuda: str
    """major.minor; empty for a build for CPUs."""
    channel: Channel

    @property
    def build(self) -> str:
        """cu130, or cpu."""
        return "cu" + self.cuda.replace(".", "") if self.cuda else CPU

    @property
    def words(self) -> str:
        """The build for people."""
        return f"torch {self.torch} for {f'CUDA {self.cuda}' if self.cuda else 'CPUs'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One want beside one build of torch: the channel, and what it is called there."""

    want: Want
    channel: Channel
    requirement: str = ""
    """For the resolver; empty where no resolver can see it."""
    version: str = ""
    url: str = ""
    """A file's address, or that of an index."""
    file: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a want cannot be had, at one build of torch or at all."""

    about: str
    """Name of the want."""
    words: str
    sources: tuple[str, ...] = ()
    by_gpu: bool = False
    """No torch, Python or channel changes it."""
    by_driver: bool = False
    by_python: bool = False


def spots(node: PlannedNode, limits: Limits) -> tuple[tuple[Spot, ...], tuple[tuple[Spot, Obstacle], ...]]:
    """The builds of torch that the node can run, newest release first, the registry's before others of a release; and
    why the rest cannot."""
    can: list[Spot] = []
    cannot: list[tuple[Spot, Obstacle]] = []
    for release in sorted(torch_releases.releases(), key=Version, reverse=True):
        for spot in _of_release(release, node, limits):
            obstacle = _against(spot, node)
            if obstacle is None:
                can.append(spot)
            else:
                cannot.append((spot, obstacle))
    return tuple(can), tuple(cannot)


def piece(want: Want, spot: Spot, node: PlannedNode) -> Piece | Obstacle:
    """How the want can be had beside that build of torch, or why it cannot."""
    row = stack_package(want.name)
    if row is None:
        return _partner(want, want.specifier, (), spot, ()) or Piece(
            want=want, channel=Channel.REGISTRY, requirement=want.words
        )
    wanted = for_gpus(want, node)
    if isinstance(wanted, Obstacle):
        return wanted
    notes = _notes(row, node)
    if not row.torch.contains(spot.torch):
        return Obstacle(about=want.name, words=f"{want.name} is for torch {row.torch}", sources=row.sources)
    if not spot.cuda and row.bound != "abi-free":
        how = "compiled for GPUs when it runs" if row.bound == "python" else "compiled for CUDA"
        words = f"{want.name} is {how}, and {spot.words} has none"
        return Obstacle(about=want.name, words=words, sources=row.sources)
    if row.registry == "source":
        return _from_authors(want, row, spot, node, notes)
    if row.registry == "nothing":
        return _from_torch_index(want, row.sources, spot, torch_releases.flash_attn_3_build(spot.cuda), "", notes)
    apart = _partner(want, wanted, row.sources, spot, notes)
    if apart is not None:
        return apart
    bound = _made_for(want, row, spot)
    if isinstance(bound, Obstacle):
        return bound
    registry = torch_releases.registry_cuda(spot.torch)
    if (
        row.bound == "torch-minor"
        and want.name not in torch_releases.partners()
        and spot.cuda
        and _major(registry) != _major(spot.cuda)
    ):
        words = f"the registry's {want.name} for torch {spot.torch} is compiled for CUDA {registry}, not {spot.cuda}"
        return Obstacle(about=want.name, words=words, sources=row.sources)
    extras = f"[{','.join(want.extras)}]" if want.extras else ""
    return Piece(want=want, channel=Channel.REGISTRY, requirement=f"{want.name}{extras}{wanted & bound}", notes=notes)


def _partner(
    want: Want, wanted: SpecifierSet, sources: tuple[str, ...], spot: Spot, notes: tuple[str, ...]
) -> Piece | Obstacle | None:
    """A package that is released with torch and has to come from torch's own index here; None when it has not."""
    own = "" if spot.channel is Channel.REGISTRY else f"+{spot.build}"
    build = torch_releases.backend_for(want.name, installed=f"{spot.torch}{own}", cuda=spot.cuda or None)
    if build is None:
        return None
    release = torch_releases.partner_for(want.name, spot.torch)
    if release is None or not wanted.contains(release, prereleases=True):
        words = f"no release of {want.words} is known to be made for torch {spot.torch}"
        return Obstacle(about=want.name, words=words, sources=sources)
    return _from_torch_index(want, sources, spot, build, release, notes)


def _made_for(want: Want, row: StackPackage, spot: Spot) -> SpecifierSet | Obstacle:
    """What the table says of the releases that pin this torch: a bound for the resolver, which would try all newer ones
    first."""
    own = row.torch_of(want.pin) if want.pin else ""
    newest = row.newest_for(spot.torch)
    if own and own != spot.torch:
        return Obstacle(about=want.name, words=f"{want.name} {want.pin} is made for torch {own}", sources=row.sources)
    if newest is None:
        known = [one.torch for one in row.made_for]
        older = next(one for one in known if Version(one) < Version(spot.torch))
        newer = [one for one in known if Version(one) > Version(spot.torch)][-1]
        words = f"no release of {want.name} is made for torch {spot.torch}: the nearest are for {older} and {newer}"
        return Obstacle(about=want.name, words=words, sources=row.sources)
    return SpecifierSet(f"<={newest}" if newest and not want.pin else "")


def _of_release(release: str, node: PlannedNode, limits: Limits) -> Iterator[Spot]:
    if limits.build == CPU:
        if pythons(release):
            channel = Channel.REGISTRY if limits.registry_is_cpu else Channel.TORCH_INDEX
            yield Spot(torch=release, cuda="", channel=channel)
        return
    registry = torch_releases.registry_cuda(release) if node.machine == "x86_64" else None
    for build in torch_releases.builds(release, node.machine):
        if limits.build and build.name != limits.build:
            continue
        if limits.cuda and limits.cuda not in (build.cuda, build.cuda.partition(".")[0]):
            continue
        channel = Channel.REGISTRY if build.cuda == registry else Channel.TORCH_INDEX
        yield Spot(torch=release, cuda=build.cuda, channel=channel)


def _against(spot: Spot, node: PlannedNode) -> Obstacle | None:
    """Why the node cannot run that build."""
    told = pythons(spot.torch)
    if told is None:
        words = f"which Pythons torch {spot.torch} has wheels for is not in the shelf's tables: they begin with 2.4"
        return Obstacle(about="torch", words=words, by_python=True)
    if not has_wheels_for(spot.torch, node.python):
        words = f"torch {spot.torch} has wheels for Python {told[0]} to {told[1]}, not {node.python}"
        return Obstacle(about="torch", words=words, by_python=True)
    if not spot.cuda:
        return None
    if node.amd:
        words = f"{spot.words} is NVIDIA's, and {node.gpu} is AMD's ({node.amd})"
        return Obstacle(about="torch", words=words, by_gpu=True)
    build = Build(torch=spot.torch, cuda=spot.cuda)
    try:
        why = torch_releases.against(build, driver=node.driver or None, gpus=node.capabilities, machine=node.machine)
    except InvalidVersion:
        return None
    if why == "gpu":
        has = ", ".join(torch_releases.gpu_code(build, node.machine))
        words = f"{spot.words} holds code for {has}, none for {node.gpu} ({node.capability})"
        return Obstacle(about="torch", words=words, by_gpu=True)
    if why == "driver":
        oldest = oldest_for_cuda(int(spot.cuda.partition(".")[0])) or "a newer one"
        words = f"CUDA {spot.cuda} needs driver {oldest} or later; the driver is {node.driver}"
        return Obstacle(about="torch", words=words, by_driver=True)
    return None


def for_gpus(want: Want, node: PlannedNode) -> SpecifierSet | Obstacle:
    """The want's specifier, narrowed to the releases that take all GPUs of the node."""
    row = stack_package(want.name)
    ranges = row.ranges(want.specifier) if row is not None else ()
    if row is None or not node.capabilities or not ranges:
        return want.specifier
    taking = [one for one in ranges if all(map(one.takes, node.capabilities))]
    if not taking:
        oldest = min(ranges, key=lambda one: as_capability(one.at_least))
        lacking = [one for one in node.capabilities if not oldest.takes(one)] or node.capabilities
        is_older = as_capability(lacking[0]) < as_capability(oldest.at_least)
        needs = f"compute capability {oldest.at_least} or later" if is_older and not oldest.at_most else ""
        needs = needs or " or ".join(dict.fromkeys(one.words for one in ranges))
        words = f"{want.name} needs {needs}; {node.gpu} has {', '.join(lacking)}"
        return Obstacle(about=want.name, words=words, sources=row.sources, by_gpu=True)
    return want.specifier & taking[0].releases if len(taking) < len(ranges) else want.specifier


def _notes(row: StackPackage, node: PlannedNode) -> tuple[str, ...]:
    oldest = min(node.capabilities, key=as_capability, default="")
    if not row.tested or not oldest or as_capability(oldest) >= as_capability(row.tested):
        return ()
    words = f"{row.name}: its authors name GPUs of compute capability {row.tested} and later; {node.gpu} has {oldest}"
    return (words,)


def _from_authors(
    want: Want, row: StackPackage, spot: Spot, node: PlannedNode, notes: tuple[str, ...]
) -> Piece | Obstacle:
    if want.name not in wheels.TABLES:
        words = f"the registry holds {want.name} as source alone: it would have to be compiled"
        return Obstacle(about=want.name, words=words, sources=row.sources)
    minor = ".".join(spot.torch.split(".")[:2])
    minors = wheels.torches(want.name)
    if minor not in minors:
        words = (
            f"the wheels of {want.name} that are known are for torch {minors[0]} to {minors[-1]}, none is for {minor}"
        )
        return Obstacle(about=want.name, words=words, sources=row.sources)
    build = Build(torch=spot.torch, cuda=spot.cuda)
    wanted = for_gpus(want, node)
    try:
        wheel = wheels.fitting(
            want.name,
            wheels.Node(
                torch=minor,
                cuda=spot.cuda,
                new_abi=torch_releases.has_new_abi(build) is not False,
                python=node.python,
                platform=f"linux_{node.machine}",
                glibc=node.glibc,
                gpus=node.capabilities,
            ),
            str(wanted) if isinstance(wanted, SpecifierSet) else "",
        )
    except wheels.NoWheel as error:
        return Obstacle(about=want.name, words=str(error), sources=row.sources)
    return Piece(want=want, channel=Channel.AUTHORS, version=wheel.version, url=wheel.url, file=wheel.file, notes=notes)


def _from_torch_index(
    want: Want, sources: tuple[str, ...], spot: Spot, build: str | None, version: str, notes: tuple[str, ...]
) -> Piece | Obstacle:
    if build is None:
        words = f"torch's own indexes have no {want.name} for {spot.words}"
        return Obstacle(about=want.name, words=words, sources=sources)
    return Piece(
        want=want, channel=Channel.TORCH_INDEX, version=version, url=torch_releases.index_of(build), notes=notes
    )


def _major(cuda: str | None) -> str:
    return (cuda or "").partition(".")[0]


def torches(all_spots: Iterable[Spot]) -> str:
    """The releases of some builds for people, newest first: `2.9.1, 2.9.0 and 2.8.0`."""
    names = list(dict.fromkeys(one.torch for one in all_spots))
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
