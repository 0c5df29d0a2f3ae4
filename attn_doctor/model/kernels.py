"""Trials of attention kernels (`check --kernels`): what was tried on which GPU, and what came of it.

Every field has the name that it has in the format kernels/1 (formats/kernels_v1.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from attn_doctor.model.dtypes import HALVES

#: Outcomes of a trial. A kernel that is not offered refused by its contract; what is not run was not reached.
RIGHT, WRONG, REFUSED, CRASHED, HUNG = "right", "wrong", "refused", "crashed", "hung"
NOT_OFFERED, NO_MEMORY, NOT_RUN = "not offered", "no memory", "not run"
#: Outcomes that say something of the kernel itself.
RESULTS = (RIGHT, WRONG, REFUSED, CRASHED, HUNG)
#: Outcomes of a kernel that was compiled and not run, beside the compiler's own.
COMPILES, NOT_LOOKED = "compiles", "could not look"

#: As flash-attn, xformers, vLLM and Triton's kernels put it; "head_size", "headdim", "head dimension".
_HEAD_DIM = re.compile(r"head[ _]?(?:dim|size)", re.IGNORECASE)
#: Forms that a model in training ordinarily meets.
_ORDINARY = ("dense", "causal", "gqa", "varlen", "bool-mask", "half-mask")
_TROUBLES = ("not finite", WRONG, CRASHED, HUNG, REFUSED)
#: Of a field that JSON holds only where there is something to tell.
_LEFT_OUT = {"left_out": True}
_BUSY_MEMORY_MIB = 1024
_BUSY_PER_CENT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGpu:
    """The GPU that a plan is for, where there is none."""

    name: str | None = None
    compute_capability: str
    shared_memory_bytes: int | None = None
    memory_mib: int | None = None
    multi_processor_count: int | None = None

    @property
    def words(self) -> str:
        """Its name; one that was given by its compute capability alone has no other."""
        if self.name in (None, self.compute_capability):
            return f"compute capability {self.compute_capability}"
        return str(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedRows:
    """Rows of a GPU's memory that were put in the place of faulty ones."""

    corrected: int
    uncorrected: int
    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """What NVML says of a GPU at one moment; None: it does not tell."""

    index: int
    name: str | None = None
    compute_capability: str | None = None
    memory_mib: int | None = None
    mig: str | None = None
    clock_mhz: int | None = None
    max_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    power_watts: int | None = None
    power_limit_watts: int | None = None
    power_default_watts: int | None = None
    temperature: int | None = None
    """In degrees Celsius."""
    ecc_errors: int | None = None
    remapped_rows: RemappedRows | None = None
    utilization: int | None = None
    """Per cent."""
    memory_used_mib: int | None = None
    processes: int | None = None
    error: str | None = field(default=None, metadata=_LEFT_OUT)
    """Why NVML cannot tell anything of this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of a GPU, in bytes."""

    free: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """An Xid that a GPU told; at: seconds since the epoch."""

    number: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Xids:
    """The Xids of one GPU while kernels ran."""

    why_not: str | None
    """Why nobody could listen; None where somebody did."""
    seen: tuple[XidEvent, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Each once, in the order in which they came."""
        return tuple(dict.fromkeys(one.number for one in self.seen))


NO_LISTENER = Xids(why_not="nobody listened")


@dataclass(frozen=True, slots=True, kw_only=True)
class XidMeaning:
    """What NVIDIA says of an Xid's number."""

    meaning: str
    blames: str | None = None
    keep_out: bool | None = None
    action: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedGpu:
    """A GPU on which kernels were tried."""

    index: str
    """As torch counts; `cpu` in tests."""
    name: str | None
    compute_capability: str | None
    ceilings: Mapping[str, float] | None
    """`matmul_<dtype>` in TFLOP/s and `copy` in GB/s, as it reached them itself."""
    memory: Memory | None
    stopped: str | None
    """Why not everything was tried."""
    before: GpuState | None
    load: GpuState | None
    """While kernels ran."""
    xids: Xids | None = field(default=None, metadata=_LEFT_OUT)

    @property
    def heard(self) -> Xids:
        """Its Xids; where the report has none, nobody listened."""
        return self.xids or NO_LISTENER

    @property
    def half_matmul(self) -> float | None:
        """TFLOP/s of the matrix product in bf16, in fp16 where a GPU has no bf16."""
        ceilings = self.ceilings or {}
        value = ceilings.get("matmul_bfloat16") or ceilings.get("matmul_float16")
        return float(value) if value else None

    @property
    def copy(self) -> float | None:
        """GB/s of a large copy."""
        return (self.ceilings or {}).get("copy")

    @property
    def busy(self) -> str | None:
        """What else used it before it was measured, in words: a GPU that was busy proves nothing by being slow."""
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
    """As in --backend."""
    title: str
    version: str | None = None
    state: str
    """`runs`, or why it cannot be run here at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """A call that would be tried."""

    backend: str
    dtype: str
    head_dim: int
    form: str
    direction: str
    """`train`: forward and backward; `forward`."""
    variant: str = ""
    """Of a kernel that tunes itself: the choice it is held to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultError:
    """How far one result was from the reference; None: not finite."""

    relative: float | None
    max: float | None
    limit: float | None
    """How large `relative` may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One timed call, and its shares of what the GPU itself reached."""

    ms: float
    tflops: float
    gbs: float
    of_matmul: float | None
    of_copy: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One large call beside a matrix product that was timed with it."""

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
    outcome: str
    reason: str | None = field(default=None, metadata=_LEFT_OUT)
    """The kernel's own words, or why it was not run."""
    troubles: tuple[str, ...] | None = field(default=None, metadata=_LEFT_OUT)
    """Of one whose results were judged: NaN, infinity, unwritten, error, not deterministic."""
    errors: Mapping[str, ResultError] | None = field(default=None, metadata=_LEFT_OUT)
    """By result: out, dq, dk, dv."""
    unwritten: int | None = field(default=None, metadata=_LEFT_OUT)
    """Elements that nobody wrote."""
    same_twice: bool | None = field(default=None, metadata=_LEFT_OUT)
    chosen: str | None = field(default=None, metadata=_LEFT_OUT)
    """What a library that chooses between kernels chose."""
    speed: Speed | None = field(default=None, metadata=_LEFT_OUT)
    share: Share | None = field(default=None, metadata=_LEFT_OUT)
    seconds: float | None = field(default=None, metadata=_LEFT_OUT)
    xids: tuple[int, ...] | None = field(default=None, metadata=_LEFT_OUT)
    """Of one that did not end well: what the GPU told while it ran."""
    unanswered: tuple[str, ...] = ()
    """Fields of these that were asked for and had no answer: `chosen` where the library cannot be asked, `speed` and
    `share` where there was no memory for a large call. In JSON they are null."""

    @property
    def trouble(self) -> str | None:
        """The sort of trouble that it met, or None."""
        if self.outcome == WRONG and {"NaN", "infinity"} & set(self.troubles or ()):
            return "not finite"
        return self.outcome if self.outcome in _TROUBLES else None

    @property
    def refused_by_head_dim(self) -> bool:
        """Whether the kernel says itself that it is the head dimension that it does not take."""
        return self.outcome == REFUSED and bool(_HEAD_DIM.search(self.reason or ""))

    @property
    def ordinary(self) -> bool:
        """Whether a model in training ordinarily meets such a call."""
        return self.form in _ORDINARY and self.dtype in HALVES


@dataclass(frozen=True, slots=True, kw_only=True)
class NotOffered:
    """Calls that a kernel's own contract leaves out, by its words."""

    backend: str
    reason: str
    gpus: tuple[str, ...] = ()
    cells: int
    """How many."""
    dtypes: tuple[str, ...]
    head_dims: tuple[int, ...] = ()
    forms: tuple[str, ...]
    directions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledBackend:
    """What came of one backend's kernels, compiled for a GPU that is not there."""

    name: str
    title: str
    kernels: int
    compile: int
    """How many of these compile."""
    not_reached: int
    error: str | None
    """Why not all were seen."""
    nothing: str | None = field(default=None, metadata=_LEFT_OUT)
    """That all was seen and there was no kernel, in words."""

    @property
    def by_calls(self) -> bool:
        """Are its calls made up, as FlexAttention's and those of a person's own function are?"""
        return _by_calls(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledKernel:
    """What became of one kernel in the compiler."""

    backend: str
    kernel: str
    place: str | None = field(default=None, metadata=_LEFT_OUT)
    """file:line of the launch."""
    outcome: str
    message: str
    cause: str
    required_bytes: int | None
    limit_bytes: int | None
    configurations: int | None = field(default=None, metadata=_LEFT_OUT)
    left_out: int | None = field(default=None, metadata=_LEFT_OUT)
    call: str | None = field(default=None, metadata=_LEFT_OUT)
    """The first call that was seen to launch it."""
    mended_by: str | None = field(default=None, metadata=_LEFT_OUT)
    """Arguments of that call with which its kernels were seen to compile."""

    @property
    def by_calls(self) -> bool:
        """As of its backend."""
        return _by_calls(self.backend)

    @property
    def looked_at(self) -> bool:
        """False where the time was up before."""
        return self.outcome != NOT_LOOKED


def _by_calls(backend: str) -> bool:
    return backend == "flex" or ":" in backend


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """Triton kernels that were compiled for a GPU that is not there."""

    gpu: PlannedGpu
    why_not: str | None
    backends: tuple[CompiledBackend, ...]
    kernels: tuple[CompiledKernel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTrials:
    """All of one run; without a GPU what would run, and nothing that ran."""

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
    """By backend: offered calls that the mode leaves out, since others meet each pair of their values."""
    not_reached: int
    compiled: Compilation | None = field(default=None, metadata=_LEFT_OUT)
    seconds: float | None = field(default=None, metadata=_LEFT_OUT)
    xid_meanings: Mapping[str, XidMeaning] | None = field(default=None, metadata=_LEFT_OUT)
    """Of the numbers that were heard."""

    @property
    def titles(self) -> dict[str, str]:
        """By name of a backend."""
        return {one.name: one.title for one in self.backends}

    def title(self, backend: str) -> str:
        """The backend's title, or its name where it has none."""
        return self.titles.get(backend, backend)

    @property
    def counts(self) -> dict[str, int]:
        """Trials by outcome, of those outcomes that say something of the kernel; zeros too."""
        outcomes = [trial.outcome for trial in self.cells]
        return {outcome: outcomes.count(outcome) for outcome in RESULTS}

    @property
    def without_result(self) -> int:
        """Trials that were to run and came to no result."""
        offered = sum(trial.outcome != NOT_OFFERED for trial in self.cells)
        return self.not_reached + offered - sum(self.counts.values())

    @property
    def gaps(self) -> str:
        """Why not everything that was to run did, in words; empty when it did."""
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
        """Trials in trouble, those that differ in dtype, head dim or direction alone together; wrong ones first."""
        groups: dict[tuple[str, str, str, str, bool], list[Trial]] = {}
        for trial in self.cells:
            if trial.trouble is not None:
                key = (trial.backend, trial.form, trial.trouble, trial.gpu, trial.refused_by_head_dim)
                groups.setdefault(key, []).append(trial)
        return [group for _, group in sorted(groups.items(), key=lambda item: _TROUBLES.index(item[0][2]))]
