"""Plans: what `fix` would change, finding by finding. Values only; made in fix/, shown in report/."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from attn_doctor.model.facts import State
from attn_doctor.model.findings import Safety


class Reversal(str, Enum):
    """How well a step can be taken back; apart from how safe it is."""

    EXACT = "exact"
    BEST_EFFORT = "best-effort"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Splice:
    """Bytes [start, end) of the file as it was found give way to `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """A file that gets other content: a configuration, a source file, or a new activation file."""

    file: str
    """Absolute, links resolved."""
    before: str | None
    """SHA-256 of the file the plan was made for; None where there is none yet."""
    after: str
    """SHA-256 once the splices are in."""
    splices: tuple[Splice, ...]
    diff: str
    """For people: a unified diff."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageChange:
    """One distribution that the installer would put in or replace."""

    name: str
    before: str | None
    after: str
    source: str = ""
    """Where it comes from: file name of the wheel, without any credentials."""
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """One call of the installer for the whole plan."""

    installer: str
    """pip or uv"""
    requirements: tuple[str, ...]
    no_deps: bool
    no_cache: bool
    reinstall: bool
    changes: tuple[PackageChange, ...]
    builds: tuple[str, ...] = ()
    """Exact releases that are built from source, against what is installed (`--no-build-isolation`)."""
    build_environment: tuple[tuple[str, str], ...] = ()
    """What the builds are told, such as MAX_JOBS."""
    wheels: tuple[str, ...] = ()
    """Wheel files that a person named, absolute."""
    torch_backend: str = ""
    """uv's --torch-backend."""
    index_url: str | None = None
    no_index: bool = False
    find_links: tuple[str, ...] = ()
    stash: bool = True
    stash_bytes: int = 0
    """What will be copied aside before anything is replaced; without a stash, what would have been."""
    warnings: tuple[str, ...] = ()


Change: TypeAlias = FileEdit | Install


@dataclass(frozen=True, slots=True, kw_only=True)
class Cured:
    """The finding that a step cures, and by which remedy."""

    finding: str
    subjects: tuple[str, ...]
    severity: str
    remedy: str
    title: str
    origin: str
    """The recipe's file and SHA-256: a recipe can install packages, so it is code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change. All installations are one step, since they are one call of the resolver."""

    change: Change
    cures: tuple[Cured, ...]
    safety: Safety
    why_this_safety: str
    reversal: Reversal
    why_this_reversal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """A finding that the plan leaves as it is, and why."""

    finding: str
    severity: str
    title: str
    reason: str
    needs_unsafe: bool = False
    """A remedy is there; only `--unsafe-fixes` is missing."""
    needs_naming: bool = False
    """A remedy is there, and rests on what somebody assumed: only its own name with `--only` is missing."""
    by_hand: tuple[str, ...] = ()
    """What a person can do: texts and commands, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A fact that the plan rests on, as it was found."""

    name: str
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything `fix` would do; the same facts, recipes and options give the same plan, byte for byte."""

    doctor_version: str
    python: str
    prefix: str
    configs: tuple[str, ...]
    projects: tuple[str, ...]
    steps: tuple[Step, ...]
    left: tuple[Remaining, ...]
    grounds: tuple[Ground, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The files it edits."""
        return tuple(step.change.file for step in self.steps if isinstance(step.change, FileEdit))
