"""What packages around torch need before they are installed: GPUs, how they are bound to torch, where they come from.

The table is data (recipes/packages.toml) with its sources; this module looks entries up and never guesses a missing
one.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from attn_doctor.model.package_versions import canonical_name
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes import shelf

TABLE = "packages.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRange:
    """The compute capabilities that some releases of a package take."""

    releases: SpecifierSet
    at_least: str
    at_most: str
    """Empty: every later one."""

    def takes(self, gpu: str) -> bool:
        """True for a compute capability within the range."""
        return as_capability(self.at_least) <= as_capability(gpu) and (
            not self.at_most or as_capability(gpu) <= as_capability(self.at_most)
        )

    @property
    def words(self) -> str:
        """The range for people: `compute capability 8.0 or later`."""
        if not self.at_most:
            return f"compute capability {self.at_least} or later"
        if self.at_most == self.at_least:
            return f"compute capability {self.at_least}"
        return f"compute capability {self.at_least} to {self.at_most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubKernel:
    """A kernel of the Hugging Face hub that takes a package's place."""

    name: str
    torch: SpecifierSet


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeFor:
    """A release of torch, and the newest release of a package that pins it."""

    torch: str
    newest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FromSource:
    """What compiling a package takes."""

    needs: str
    minutes: str
    source: str
    """The distribution that is compiled."""
    tools: tuple[str, ...] = ()
    """Python packages that have to be there, since the build is not isolated from torch."""
    environment: tuple[str, ...] = ()
    """`NAME=value` that make it compile, and that limit its memory."""
    checkout: str = ""
    """Where its source lies, when no registry holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPackage:
    """One package of the table; recipes/packages.toml describes the fields."""

    name: str
    bound: str
    registry: str
    sources: tuple[str, ...]
    gpus: tuple[GpuRange, ...] = ()
    devices: tuple[str, ...] = ()
    """Kinds of GPU that some build of it has kernels for: cuda, rocm, xpu, mps; empty: any."""
    tested: str = ""
    stable_from: str = ""
    torch: SpecifierSet = SpecifierSet()
    prerelease: bool = False
    needs: tuple[str, ...] = ()
    hub: HubKernel | None = None
    build: FromSource | None = None
    instead: str = ""
    extras: tuple[str, ...] = ()
    """Extras without which its wheel has no part for torch."""
    core: str = ""
    """Extra that names the CUDA major."""
    made_for: tuple[MadeFor, ...] = ()
    """Newest first; empty when its metadata pins no torch."""

    def ranges(self, wanted: SpecifierSet) -> tuple[GpuRange, ...]:
        """The ranges of the releases that a specifier may mean; both sides of a limit when it may mean either."""
        pins = [one.version for one in wanted if one.operator == "==" and "*" not in one.version]
        if pins:
            return tuple(one for one in self.gpus if one.releases.contains(pins[0], prereleases=True))
        return self.gpus

    @property
    def is_pinned(self) -> bool:
        """Whether it is made for one torch, or asks for it."""
        return self.bound == "torch-minor" or bool(self.made_for) or bool(self.torch)

    def torch_of(self, version: str) -> str:
        """The torch that this release pins; empty when the table does not say: it is newer, or pins none."""
        own = Version(version)
        rows = [one for one in self.made_for if own <= Version(one.newest)]
        # Those before the oldest row pin torches that are not in it.
        return rows[-1].torch if rows and (own == Version(rows[-1].newest) or rows[-1] != self.made_for[-1]) else ""

    def newest_for(self, torch: str) -> str | None:
        """The newest release that pins this torch; None when none does, empty when the table does not say."""
        if not self.made_for or Version(torch) > Version(self.made_for[0].torch):
            return ""
        found = next((one.newest for one in self.made_for if one.torch == torch), None)
        return found or (None if Version(torch) > Version(self.made_for[-1].torch) else "")

    def bound_at(self, version: str) -> str:
        """How that release is bound to torch: `bound`, or stable-abi from `stable_from` on."""
        if self.stable_from and Version(version) >= Version(self.stable_from):
            return "stable-abi"
        return self.bound


def stack_package(name: str) -> StackPackage | None:
    """The row of a package; None when the table has none."""
    return _packages().get(canonical_name(name))


def is_pinned_to_torch(name: str) -> bool:
    """True for a package that is made for one torch: an installer that follows its metadata may bring another."""
    row = stack_package(name)
    return canonical_name(name) in shelf.table(TABLE)["pins"] or (row is not None and row.is_pinned)


def is_like_the_stack(name: str) -> bool:
    """True for the name of a package that is in no table, and seems to be of the attention stack."""
    return _like().search(name) is not None


def as_capability(text: str) -> tuple[int, int]:
    """(9, 0) for "9.0"."""
    major, _, minor = text.partition(".")
    return int(major), int(minor)


@cache
def _like() -> re.Pattern[str]:
    return re.compile("|".join(shelf.table(TABLE)["like"]), re.IGNORECASE)


@cache
def _packages() -> dict[str, StackPackage]:
    return {row["name"]: _package(row) for row in shelf.table(TABLE)["package"]}


def _package(row: dict[str, Any]) -> StackPackage:
    hub = row.get("hub")
    return StackPackage(
        name=row["name"],
        bound=row["bound"],
        registry=row["registry"],
        sources=tuple(row["sources"]),
        gpus=tuple(
            GpuRange(releases=SpecifierSet(one["releases"]), at_least=one["at_least"], at_most=one.get("at_most", ""))
            for one in row.get("gpus", ())
        ),
        devices=tuple(row.get("devices", ())),
        tested=row.get("tested", ""),
        stable_from=row.get("stable_from", ""),
        torch=SpecifierSet(row.get("torch", "")),
        prerelease=row.get("prerelease", False),
        needs=tuple(row.get("needs", ())),
        hub=HubKernel(name=hub["name"], torch=SpecifierSet(hub["torch"])) if hub else None,
        build=_from_source(row["name"], row["build"]) if "build" in row else None,
        instead=row.get("instead", ""),
        extras=tuple(row.get("extras", ())),
        core=row.get("core", ""),
        made_for=tuple(MadeFor(torch=one["torch"], newest=one["newest"]) for one in row.get("made_for", ())),
    )


def _from_source(name: str, row: dict[str, Any]) -> FromSource:
    return FromSource(
        needs=row["needs"],
        minutes=row["minutes"],
        source=row.get("source", name),
        tools=tuple(row.get("tools", ())),
        environment=tuple(row.get("environment", ())),
        checkout=row.get("checkout", ""),
    )
