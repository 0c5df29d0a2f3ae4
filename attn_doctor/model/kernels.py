"""Trials of attention kernels (`check --kernels`): which calls were tried on which GPU, and their results.

Field names equal the keys of the format kernels/1 (formats/kernels_v1.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attn_doctor.model.compiled_kernels import Compilation
from attn_doctor.model.dtypes import HALVES
from attn_doctor.model.gpu_state import LEFT_OUT, NO_LISTENER, GpuState, PlannedGpu, XidMeaning, Xids
from attn_doctor.quick_dataclasses import dataclass, field

#: Outcomes of a trial. NOT_OFFERED: the contract of the kernel excludes the call. NOT_RUN: the run ended before it.
RIGHT, WRONG, REFUSED, CRASHED, HUNG = "right", "wrong", "refused", "crashed", "hung"
NOT_OFFERED, NO_MEMORY, NOT_RUN = "not offered", "no memory", "not run"
#: Outcomes that are results of the kernel itself.
RESULTS = (RIGHT, WRONG, REFUSED, CRASHED, HUNG)

#: Spellings of head dim in messages of flash-attn, xformers, vLLM and Triton's kernels.
_HEAD_DIM = re.compile(r"head[ _]?(?:dim|size)", re.IGNORECASE)
#: Forms of attention calls that are common in training.
_ORDINARY = ("dense", "causal", "gqa", "varlen", "bool-mask", "half-mask")
_TROUBLES = ("not finite", WRONG, CRASHED, HUNG, REFUSED)
_BUSY_MEMORY_MIB = 1024
_BUSY_PER_CENT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """GPU memory in bytes."""

    free: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedGpu:
    """A GPU on which kernels were tried."""

    index: str
    """The index that torch uses; `cpu` in tests."""
    name: str | None
    compute_capability: str | None
    ceilings: Mapping[str, float] | None
    """Speeds measured on this GPU: `matmul_<dtype>` in TFLOP/s and `copy` in GB/s."""
    memory: Memory | None
    stopped: str | None
    """Why some trials were left out."""
    before: GpuState | None
    load: GpuState | None
    """State while kernels ran."""
    xids: Xids | None = field(default=None, metadata=LEFT_OUT)

    @property
    def heard(self) -> Xids:
        """Its Xids; for a report without any, a record that the listener did not start."""
        return self.xids or NO_LISTENER

    @property
    def half_matmul(self) -> float | None:
        """TFLOP/s of the matrix product in bf16, or in fp16 on a GPU without bf16."""
        ceilings = self.ceilings or {}
        value = ceilings.get("matmul_bfloat16") or ceilings.get("matmul_float16")
        return float(value) if value else None

    @property
    def copy(self) -> float | None:
        """GB/s of a large copy."""
        return (self.ceilings or {}).get("copy")

    @property
    def busy(self) -> str | None:
        """Other load on the GPU before the measurement, in words: a low speed on a busy GPU proves nothing."""
        before = self.before
        if before is None:
            return None
        words = []
        if (before.utilization or 0) > _BUSY_PER_CENT:
            words.append(f"{before.utilization} % utilised")
        if before.processes and (before.memory_used_mib or 0) > _BUSY_MEMORY_MIB:
            words.append(f"{(before.memory_used_mib or 0) / 1024:.1f} GiB taken by {before.processes} other processes")
        return ", ".join(words) or None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A kernel that can be tried."""

    name: str
    """The name used with --backend."""
    title: str
    version: str | None = None
    state: str
    """`runs`, or the reason why it cannot run here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """A call that would be tried."""

    backend: str
    dtype: str
    head_dim: int
    form: str
    direction: str
    """`train` (forward and backward) or `forward`."""
    variant: str = ""
    """The configuration it is fixed to, for a kernel that tunes itself."""
    situation: str | None = field(default=None, metadata=LEFT_OUT)
    """A layout, values or a way to call (patient/kernels/situations.py); None: the usual one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultError:
    """Error of one result against the reference; None when not finite."""

    relative: float | None
    max: float | None
    limit: float | None
    """Largest `relative` error allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Speed of one timed call, absolute and relative to the speeds measured on the same GPU."""

    ms: float
    tflops: float
    gbs: float
    of_matmul: float | None
    of_copy: float | None
    memory_bytes: int | None = field(default=None, metadata=LEFT_OUT)
    """What one call takes at most besides its operands; measured for calls of the user's model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Speed of one large call relative to a matrix product timed together with it."""

    tflops: float
    matmul_tflops: float
    of_matmul: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One call that was tried."""

    gpu: str
    backend: str
    dtype: str
    head_dim: int
    form: str
    direction: str
    variant: str = ""
    situation: str | None = field(default=None, metadata=LEFT_OUT)
    """A layout, values or a way to call; None: contiguous random numbers of one length."""
    situation_words: str | None = field(default=None, metadata=LEFT_OUT)
    rare: bool | None = field(default=None, metadata=LEFT_OUT)
    """Ordinary training does not make such calls."""
    calls: int | None = field(default=None, metadata=LEFT_OUT)
    """How often the user's model makes this call; None for a trial of no model."""
    used: bool | None = field(default=None, metadata=LEFT_OUT)
    """The user's model makes this call with this backend."""
    outcome: str
    reason: str | None = field(default=None, metadata=LEFT_OUT)
    """The kernel's own message, or why it was not run."""
    troubles: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    """For a trial with judged results: NaN, infinity, unwritten, error, not deterministic."""
    errors: Mapping[str, ResultError] | None = field(default=None, metadata=LEFT_OUT)
    """Result name (out, dq, dk, dv) -> error."""
    call: Mapping[str, Any] | None = field(default=None, metadata=LEFT_OUT)
    """The form of a call that came out wrong, as `trace --record` keeps those of a model."""
    unwritten: int | None = field(default=None, metadata=LEFT_OUT)
    """Number of output elements that the kernel did not write."""
    same_twice: bool | None = field(default=None, metadata=LEFT_OUT)
    chosen: str | None = field(default=None, metadata=LEFT_OUT)
    """The kernel chosen by a library that chooses among several."""
    speed: Speed | None = field(default=None, metadata=LEFT_OUT)
    share: Share | None = field(default=None, metadata=LEFT_OUT)
    seconds: float | None = field(default=None, metadata=LEFT_OUT)
    xids: tuple[int, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Xids that the GPU reported during a trial that failed."""
    unanswered: tuple[str, ...] = ()
    """Fields without an answer although requested: `chosen` when the library has no API for it, `speed` and `share`
    when there was no memory for a large call. In JSON they are null."""

    @property
    def trouble(self) -> str | None:
        """The kind of failure, or None."""
        if self.outcome == WRONG and {"NaN", "infinity"} & set(self.troubles or ()):
            return "not finite"
        return self.outcome if self.outcome in _TROUBLES else None

    @property
    def refused_by_head_dim(self) -> bool:
        """True when the kernel's message names the head dimension as the reason for its refusal."""
        return self.outcome == REFUSED and bool(_HEAD_DIM.search(self.reason or ""))

    @property
    def ordinary(self) -> bool:
        """True when such a call is common in training."""
        return self.form in _ORDINARY and self.dtype in HALVES and not self.rare


@dataclass(frozen=True, slots=True, kw_only=True)
class NotOffered:
    """Calls that the contract of a kernel excludes, with the reason it gives."""

    backend: str
    reason: str
    gpus: tuple[str, ...] = ()
    cells: int
    """Number of such calls."""
    dtypes: tuple[str, ...]
    head_dims: tuple[int, ...] = ()
    forms: tuple[str, ...]
    directions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTrials:
    """All trials of one run; without a GPU, the plan of what would run."""

    mode: str
    seed: int
    budget: float
    """Seconds for each GPU."""
    backends_asked: tuple[str, ...] = ()
    dtypes_asked: tuple[str, ...] = ()
    ran: bool
    why_not: str | None = None
    gpu_planned_for: PlannedGpu | None = None
    gpus: tuple[TestedGpu, ...]
    backends: tuple[Backend, ...]
    cells: tuple[Trial, ...]
    would_run: tuple[PlannedTrial, ...]
    not_offered: tuple[NotOffered, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Backend -> number of offered calls that this mode omits, because other trials cover each pair of their values."""
    not_reached: int
    compiled: Compilation | None = field(default=None, metadata=LEFT_OUT)
    seconds: float | None = field(default=None, metadata=LEFT_OUT)
    xid_meanings: Mapping[str, XidMeaning] | None = field(default=None, metadata=LEFT_OUT)
    """Meanings of the Xid numbers that were reported."""

    @property
    def titles(self) -> dict[str, str]:
        """Name of a backend -> its title."""
        return {one.name: one.title for one in self.backends}

    def title(self, backend: str) -> str:
        """The backend's title, or its name where it has none."""
        return self.titles.get(backend, backend)

    @property
    def counts(self) -> dict[str, int]:
        """Number of trials by outcome, for outcomes that are results of the kernel; includes zeros."""
        outcomes = [trial.outcome for trial in self.cells]
        return {outcome: outcomes.count(outcome) for outcome in RESULTS}

    @property
    def without_result(self) -> int:
        """Number of planned trials that gave no result."""
        offered = sum(trial.outcome != NOT_OFFERED for trial in self.cells)
        return self.not_reached + offered - sum(self.counts.values())

    @property
    def gaps(self) -> str:
        """Why planned trials did not run, in words; empty when all ran."""
        if not self.ran:
            return f"no kernel was run: {self.why_not}"
        words = [f"GPU {one.index}: {one.stopped}" for one in self.gpus if one.stopped]
        if self.not_reached:
            words.append(f"{self.not_reached} trials were not reached within {self.budget:g} s")
        not_run = sum(trial.outcome in (NOT_RUN, NO_MEMORY) for trial in self.cells)
        if not_run:
            words.append(f"{not_run} trials could not be run")
        return "; ".join(words)

    @property
    def troubles(self) -> list[list[Trial]]:
        """Failed trials, grouped: trials that differ only in dtype, head dim or direction are together; wrong results
        first.
        """
        groups: dict[tuple[str, str, str, str, str | None, bool], list[Trial]] = {}
        for trial in self.cells:
            if trial.trouble is not None:
                key = (
                    trial.backend,
                    trial.form,
                    trial.trouble,
                    trial.gpu,
                    trial.situation_words,
                    trial.refused_by_head_dim,
                )
                groups.setdefault(key, []).append(trial)
        return [group for _, group in sorted(groups.items(), key=lambda item: _TROUBLES.index(item[0][2]))]
