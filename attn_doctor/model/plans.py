"""Plans: what `fix` would change, finding by finding. Records only; made in planning/ and fix/, shown by report/."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from attn_doctor.model.facts import State
from attn_doctor.model.findings import Safety
from attn_doctor.quick_dataclasses import dataclass


class Reversal(str, Enum):
    """How completely a step can be undone; independent of how safe it is."""

    EXACT = "exact"
    BEST_EFFORT = "best-effort"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Splice:
    """Replaces bytes [start, end) of the original file with `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEdit:
    """New content for a file: a configuration, a source file, or a new activation file."""

    file: str
    """Absolute path, links resolved."""
    before: str | None
    """SHA-256 of the file for which the plan was made; None when the file does not exist yet."""
    after: str
    """SHA-256 after the change."""
    splices: tuple[Splice, ...]
    diff: str
    """Unified diff, for people."""
    is_list: bool = False
    """True for a list of packages, which no examination reads."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageChange:
    """One distribution that the installer would install or replace."""

    name: str
    before: str | None
    after: str
    source: str = ""
    """File name of the wheel, without credentials."""
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """One call of the installer for the whole plan."""

    installer: str
    """pip or uv."""
    requirements: tuple[str, ...]
    no_deps: bool
    no_cache: bool
    reinstall: bool
    changes: tuple[PackageChange, ...]
    builds: tuple[str, ...] = ()
    """Exact releases to build from source, without build isolation (`--no-build-isolation`)."""
    build_environment: tuple[tuple[str, str], ...] = ()
    """Environment variables for the builds, such as MAX_JOBS."""
    wheels: tuple[str, ...] = ()
    """Absolute paths of wheel files that were named on the command line."""
    torch_backend: str = ""
    """Value of uv's --torch-backend."""
    index_url: str | None = None
    no_index: bool = False
    find_links: tuple[str, ...] = ()
    users_base: str = ""
    """The user's own folder, where the packages lie there; empty for the environment's folders."""
    kept_bytes: int = 0
    """Size of the files that give way; they are kept, so that undo can put them back."""
    warnings: tuple[str, ...] = ()


Change: TypeAlias = FileEdit | Install


@dataclass(frozen=True, slots=True, kw_only=True)
class Cured:
    """A finding that a step fixes, and the remedy it uses."""

    finding: str
    subjects: tuple[str, ...]
    severity: str
    remedy: str
    title: str
    origin: str
    """The recipe's file and SHA-256. A recipe can install packages, so it counts as code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change. All installations together are one step, since the installer resolves them in one call."""

    change: Change
    cures: tuple[Cured, ...]
    safety: Safety
    why_this_safety: str
    reversal: Reversal
    why_this_reversal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """A finding that the plan leaves open, and why."""

    finding: str
    severity: str
    title: str
    reason: str
    needs_unsafe: bool = False
    """A remedy exists, but needs `--unsafe-fixes`."""
    needs_naming: bool = False
    """A remedy exists, but rests on an assumption, so the finding must be named with `--only`."""
    unavailable: bool = False
    """A remedy exists, but what it installs could not be had: offline, or not on the index."""
    diff: str = ""
    """What a person may apply to a checkout that no program should replace."""
    by_hand: tuple[str, ...] = ()
    """Instructions and commands for a person, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A fact on which the plan rests, with its value at planning time."""

    name: str
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything `fix` would do. Equal facts, recipes and options give an equal plan, byte for byte."""

    doctor_version: str
    python: str
    prefix: str
    configs: tuple[str, ...]
    projects: tuple[str, ...]
    steps: tuple[Step, ...]
    left: tuple[Remaining, ...]
    grounds: tuple[Ground, ...]
    site_folders: tuple[str, ...] = ()
    """Where an interpreter has no folder of its own: those of its packages, on copies of which changes are proven."""

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it edits."""
        return tuple(step.change.file for step in self.steps if isinstance(step.change, FileEdit))
