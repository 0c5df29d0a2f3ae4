"""The record that commands pass to report/: the diagnosis with everything it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attn_doctor.model.facts import Absent, FactSet
from attn_doctor.model.findings import Diagnosis
from attn_doctor.model.identity import Identity
from attn_doctor.quick_dataclasses import dataclass, field

if TYPE_CHECKING:
    from attn_doctor.model.compiled_regions import CompiledRegions
    from attn_doctor.model.full_verdict import FullVerdict  # which few reports have
    from attn_doctor.model.kernels import KernelTrials  # twenty classes, which only --kernels needs
    from attn_doctor.model.semantics import Semantics
    from attn_doctor.model.trace import Trace  # ten classes, which only `trace` needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The interpreter that was examined."""

    python: str
    version: str
    environment: str
    """venv, conda, uv or system."""
    because: str
    dead: str = ""
    """The active environment, when it contains no Python; else empty."""
    others: tuple[str, ...] = ()


#: Distributions that other programs install as well: alone they are no attention stack.
_OF_MANY = frozenset({"einops", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13"})


def nothing_to_examine(facts: FactSet, dead: str = "") -> str:
    """Why these facts contain no attention stack; empty when they contain one, or when that is unknown.

    `dead` is the active environment when it contains no Python.
    """
    if dead:
        return f"{dead}; another environment was examined instead"
    there = [package for package in facts.subjects("package") if package not in _OF_MANY]
    if there or not isinstance(facts.fact("torch.version").state, Absent):
        return ""
    return "no torch and nothing else of an attention stack in this environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead:
    """One log that was searched."""

    name: str
    lines: int
    failures: int = 0
    """Number of exceptions in it, recognized or not."""
    unknown_line: int | None = None
    """Line of the last exception that no recipe recognizes."""
    unknown: str = ""
    """First line of that exception."""
    note: str = ""
    """The part that could not be read, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """A known trouble whose words are near to those of a log, and which was not judged."""

    id: str
    title: str
    """With an ellipsis where a finding would name what the log says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why the examination failed: the parts of an AttnDoctorError."""

    what: str
    about: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreseen:
    """The lock file or manifest that a report is about, in the place of an environment."""

    file: str
    packages: int
    """Packages that it names."""
    open: int
    """Those of them whose version it leaves to an installer, and which were not judged."""
    complete: bool
    """It names every package, as a lock does."""
    notes: tuple[str, ...] = ()
    nothing: str = ""
    """Why there was nothing to judge; empty when there was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFault:
    """A part of attn-doctor that failed because of a bug; only the facts of that part are lost."""

    part: str
    """Name of the part: `probe "node"`."""
    error: str
    log: str
    """Path of its log, on the examined machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One examination."""

    command: str
    doctor_version: str
    created: str
    """UTC, ISO 8601, to the second."""
    examined: Examined
    quick: bool
    assumed: tuple[str, ...]
    """Names of the facts that --assume and --gpu set."""
    diagnosis: Diagnosis
    exit_status: int
    facts: FactSet = field(repr=False)
    trace: Trace | None = field(default=None, repr=False, compare=False)
    """Only from `trace`; a report that was read back from JSON has `trace_answer` alone."""
    trace_answer: Mapping[str, Any] | None = field(default=None, repr=False)
    """The tracer's answer in format trace/1, unchanged."""
    semantics: Semantics | None = field(default=None, repr=False, compare=False)
    """Only from `trace --semantics`; a report that was read back from JSON has `semantics_answer` alone."""
    compiled_regions: CompiledRegions | None = field(default=None, repr=False, compare=False)
    """Only from `trace --compile`; a report that was read back from JSON has `compiled_answer` alone."""
    compiled_answer: Mapping[str, Any] | None = field(default=None, repr=False)
    """The answer in format compiled/1, unchanged."""
    semantics_answer: Mapping[str, Any] | None = field(default=None, repr=False)
    """The answer of the checks in format semantics/1, unchanged."""
    kernels: KernelTrials | None = field(default=None, repr=False)
    """Only from `check --kernels`: every trial."""
    logs: tuple[LogRead, ...] = ()
    """Only from `explain`."""
    rerun: tuple[str, ...] = field(default=(), compare=False)
    """Only from `trace`: the options with which `fix` traces the same; empty when it cannot. Not in JSON."""
    nearest: tuple[Near, ...] = ()
    """Only from `explain`, where no message of a short log is known; the nearest first."""
    looked_for: tuple[str, ...] = ()
    """Only from `explain`: ids of the recipes whose patterns were searched for in the logs."""
    identity: Identity | None = None
    """Only from `check`: the node and environment."""
    limited_to: tuple[str, ...] = ()
    """Only from `check`: values of --only. If any recipe was excluded, the report says nothing about the others."""
    left_out: tuple[str, ...] = ()
    """Only from `check`: values of --skip."""
    own_faults: tuple[OwnFault, ...] = ()
    """Parts of attn-doctor that failed; the facts of those parts are unknown."""
    full: FullVerdict | None = None
    """Only from `check --quick`: what a full examination of this environment came to."""
    no_full: str = ""
    """Only from `check --quick` that was told where full verdicts are kept: why there is none."""
    foreseen: Foreseen | None = None
    """Only from `check --lock`: every finding is foreseen, none was observed."""
    failure: Failure | None = None
    """Why nothing could be examined; such a report contains nothing else."""

    @property
    def nothing_to_examine(self) -> str:
        """Why a report without findings does not mean healthy; empty when it does."""
        if self.foreseen is not None:
            return self.foreseen.nothing
        return nothing_to_examine(self.facts, self.examined.dead) if self.command == "check" else ""

    @property
    def limits(self) -> str:
        """The options that excluded recipes, as one would type them; empty when all were evaluated."""
        every = (("--only", self.limited_to), ("--skip", self.left_out))
        return " ".join(f"{flag} {','.join(names)}" for flag, names in every if names)
