"""What a command hands to report/: the diagnosis with everything it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attn_doctor.model.facts import Absent, FactSet
from attn_doctor.model.findings import Diagnosis
from attn_doctor.model.identity import Identity

if TYPE_CHECKING:
    from attn_doctor.model.kernels import KernelTrials  # twenty, which only --kernels needs
    from attn_doctor.model.trace import Trace  # ten classes, which only `trace` needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """Which interpreter was examined."""

    python: str
    version: str
    environment: str
    """venv, conda, uv or system"""
    because: str
    dead: str = ""
    """The active environment that was meant and holds no Python; empty where there is none."""
    others: tuple[str, ...] = ()


#: Distributions that other programs bring as well: alone they are no attention stack.
_OF_MANY = frozenset({"einops", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13"})


def nothing_to_examine(facts: FactSet, dead: str = "") -> str:
    """Why these facts hold no attention stack; empty where there is one, or where that could not be looked at.

    `dead` is the active environment that was meant and holds no Python.
    """
    if dead:
        return f"{dead}; another environment was examined instead"
    there = [package for package in facts.subjects("package") if package not in _OF_MANY]
    if there or not isinstance(facts.fact("torch.version").state, Absent):
        return ""
    return "no torch and nothing else of an attention stack in this environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead:
    """One log that was looked through."""

    name: str
    lines: int
    failures: int = 0
    """Exceptions in it, known or not."""
    unknown_line: int | None = None
    """Line of the last exception that no recipe knows."""
    unknown: str = ""
    """That exception's first line."""
    note: str = ""
    """What could not be read of it, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What kept the doctor from examining: the parts of an AttnDoctorError."""

    what: str
    about: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFault:
    """A part of attn-doctor that failed: a bug of ours, which cost no more than what that part would have told."""

    part: str
    """In words: `probe "node"`."""
    error: str
    log: str
    """Where its log lies, on the machine that was examined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One examination."""

    command: str
    doctor_version: str
    created: str
    """UTC, ISO 8601 to the second."""
    examined: Examined
    quick: bool
    assumed: tuple[str, ...]
    """Names of the facts that --assume and --gpu put in place."""
    diagnosis: Diagnosis
    exit_status: int
    facts: FactSet = field(repr=False)
    trace: Trace | None = field(default=None, repr=False, compare=False)
    """Of `trace` only; reports read back from JSON have it as `trace_answer` alone."""
    trace_answer: Mapping[str, Any] | None = field(default=None, repr=False)
    """The tracer's own answer, format trace/1, passed on as it is."""
    kernels: KernelTrials | None = field(default=None, repr=False)
    """Of `check --kernels` only: every trial."""
    logs: tuple[LogRead, ...] = ()
    """Of `explain` only."""
    looked_for: tuple[str, ...] = ()
    """Of `explain` only: ids of the recipes whose texts were looked for in the logs."""
    identity: Identity | None = None
    """Of `check` only: which node and environment this is."""
    limited_to: tuple[str, ...] = ()
    """Of `check` only: names given with --only. With any, or any left out, nothing is said of the rest."""
    left_out: tuple[str, ...] = ()
    """Of `check` only: names given with --skip."""
    own_faults: tuple[OwnFault, ...] = ()
    """Parts of attn-doctor that failed; what they would have told is unknown."""
    failure: Failure | None = None
    """Why nothing could be examined; such a report holds nothing else."""

    @property
    def nothing_to_examine(self) -> str:
        """Why an examination that found nothing wrong says nothing of health; empty where it does."""
        return nothing_to_examine(self.facts, self.examined.dead) if self.command == "check" else ""

    @property
    def limits(self) -> str:
        """The options that left recipes out, as one would write them; empty where all were judged."""
        every = (("--only", self.limited_to), ("--skip", self.left_out))
        return " ".join(f"{flag} {','.join(names)}" for flag, names in every if names)
