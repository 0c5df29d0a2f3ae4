"""Sets of releases that go together, before anything is installed: what was asked for, plans, conflicts."""

from __future__ import annotations

from enum import Enum

from attn_doctor.quick_dataclasses import dataclass


class Channel(str, Enum):
    """Where a release comes from, the most trusted first."""

    REGISTRY = "registry"
    TORCH_INDEX = "torch-index"
    AUTHORS = "authors-release"
    NAMED = "named-index"

    @property
    def words(self) -> str:
        """The channel for people."""
        return _CHANNELS[self]


_CHANNELS = {
    Channel.REGISTRY: "the package registry",
    Channel.TORCH_INDEX: "torch's own index",
    Channel.AUTHORS: "its authors' release files",
    Channel.NAMED: "the index that was named",
}


class Evidence(str, Enum):
    """What a statement about a wheel rests on."""

    PROVEN = "proven"
    """The file was opened, or a file of the same SHA-256 was."""
    BY_NAME = "by its name alone"
    NOTHING_COMPILED = "nothing compiled"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedNode:
    """The node that a stack is planned for."""

    gpu: str = ""
    """Name of the GPU as given; empty when none was named."""
    capability: str = ""
    """Its compute capability; empty for AMD's, and when none was named."""
    more: tuple[str, ...] = ()
    """Compute capabilities of other GPUs that have to be served as well."""
    amd: str = ""
    """AMD's architecture: gfx942."""
    driver: str = ""
    python: str = "3.12"
    glibc: str = "2.35"
    machine: str = "x86_64"
    assumed: tuple[str, ...] = ()
    """What nobody named and was assumed, in words."""

    @property
    def capabilities(self) -> tuple[str, ...]:
        """Those of all its GPUs; empty when none is known."""
        return (self.capability, *self.more) if self.capability else ()

    @property
    def words(self) -> str:
        """The node for people."""
        gpu = f"{self.gpu} ({', '.join(self.capabilities) or self.amd})" if self.gpu else "no GPU named"
        driver = f"driver {self.driver}" if self.driver else "driver not named"
        return f"{gpu}, {driver}, Python {self.python}, glibc {self.glibc}, {self.machine}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRelease:
    """One release of a plan."""

    name: str
    version: str
    channel: Channel
    wanted: bool = False
    evidence: Evidence = Evidence.BY_NAME
    proof: str = ""
    """What was proven, or why nothing was, in words."""
    url: str = ""
    file: str = ""
    size: int | None = None
    sha256: str = ""
    yanked: str = ""
    """Why its authors withdrew it; empty for a release that stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """One set of releases that goes together."""

    torch: str
    build: str
    """cu130, or cpu."""
    channel: Channel
    """Where torch comes from."""
    requirements: tuple[str, ...]
    """What a person types: the wants, pinned; files as `name @ address`."""
    releases: tuple[PlannedRelease, ...]
    """The wants first, then what they bring."""
    index: str = ""
    """torch's own index, when torch comes from there."""
    reason: str = ""
    """Why it stands where it stands among several."""
    resolved: str = ""
    """By whom the dependencies were resolved; empty when nobody did."""
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """`torch 2.13.0 (cu130), flash-attn 2.8.3`: torch, and the wants."""
        wanted = [f"{one.name} {one.version}".strip() for one in self.releases if one.wanted and one.name != "torch"]
        return ", ".join([f"torch {self.torch} ({self.build})", *wanted])

    @property
    def proven(self) -> bool:
        """True when every compiled wheel that is wanted was opened, and fits."""
        return all(one.evidence is not Evidence.BY_NAME for one in self.releases if one.wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clash:
    """A smallest set of wants that nothing fulfils: without any one of them there are plans.

    Of no want: the node itself cannot be planned for.
    """

    wants: tuple[str, ...]
    words: str
    sources: tuple[str, ...] = ()
    unpublished: bool = False
    """Of one want, whose pinned release no index has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """What can be done where the wants cannot be had as they are."""

    title: str
    gives_up: str
    """What of the wants it does not fulfil; empty when it fulfils all."""
    needs: str = ""
    """What it takes, or how it is used."""
    commands: tuple[str, ...] = ()
    """What a person types, in order, where there is no plan."""
    plan: StackPlan | None = None
    ends: tuple[str, ...] | None = None
    """The wants of the one conflict that it ends; None when it fulfils everything but what it gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelState:
    """A channel, and whether it could be asked."""

    channel: Channel
    asked: bool
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackAnswer:
    """The answer to `plan`."""

    wants: tuple[str, ...]
    node: PlannedNode
    plans: tuple[StackPlan, ...] = ()
    clashes: tuple[Clash, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    dead_end: str = ""
    """What was looked for in vain: other releases that fulfil everything but the pins."""
    channels: tuple[ChannelState, ...] = ()
    notes: tuple[str, ...] = ()
    downloaded: int = 0
    """Bytes of wheels that were read for proofs."""
    doctor_version: str = ""
    cohort: str = ""
    """The nodes of a fleet that it is for; empty outside of a fleet."""
    cohorts: tuple[StackAnswer, ...] = ()
    """Of a fleet that no one plan serves: the answer for each of its cohorts."""

    @property
    def exit_status(self) -> int:
        """0 with a plan, or one for each cohort; 1 with a conflict."""
        has_plans = bool(self.plans) or (bool(self.cohorts) and all(one.plans for one in self.cohorts))
        return 0 if has_plans else 1
