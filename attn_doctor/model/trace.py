"""A dtype trace: the operation and source line that gave q, k or v the dtype with which it reached an attention
kernel.
"""

from __future__ import annotations

from attn_doctor.quick_dataclasses import dataclass

#: What a clean verdict covers, and what it does not.
JUDGED = "dtypes and backends; values, masks and packing were not examined"
JUDGED_BY_GUARD = "dtypes; values are in the findings, and only those of the examined steps and sampled rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A line of source."""

    file: str
    line: int
    function: str
    source: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """An argument of an operation other than the data that flows through it."""

    dtype: str
    name: str | None
    """Name of the parameter, buffer or attribute, if it has one."""
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call on the path from a projection to a kernel."""

    place: Place | None
    call: str
    module: str
    dtype_in: str
    dtype_out: str
    changed: bool
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """q, k, v or a mask as it reached the kernel."""

    role: str
    dtype: str
    shape: tuple[int, ...]
    blamed: bool
    all_along: bool
    """It has had this dtype since its projection, so no single call changed it."""
    promotion: int | None
    path: tuple[Step, ...]
    born: tuple[str, ...] = ()
    """Where the dtype of a wrong operand comes from, in words."""

    @property
    def began(self) -> Step | None:
        """The call that made it in its present dtype; None when it is not wrong, was promoted, or is an input."""
        return self.path[0] if self.blamed and self.all_along and self.path else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A clause of a kernel's contract that a call breaks."""

    words: str
    effect: str
    message: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MathCost:
    """The cost of SDPA's math fallback for a call that no fused backend takes, and what would avoid it."""

    q_length: int
    k_length: int
    score_bytes: int
    """Bytes of the score matrix, which fused backends do not materialize."""
    operand_bytes: int
    """Bytes of q, k, v and the output, which every backend holds."""
    ways: tuple[tuple[str, str], ...]
    """(backend, change that would make it take the call)."""

    @property
    def why_small(self) -> str:
        """Why the cost does not matter, in words; empty when it does."""
        if self.q_length <= 1:
            return "one query takes one row of scores, as a step of decoding does"
        if self.score_bytes < _NOTED_BYTES:
            return f"the scores of these lengths ({self.q_length} and {self.k_length}) are small"
        if self.score_bytes <= self.operand_bytes:
            return "the scores take no more than q, k, v and the output at this length"
        return ""


#: Below this size another backend saves no memory: the shapes of a smoke test.
_NOTED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The backend that torch's SDPA would choose on that GPU, by torch's own rules."""

    taken: str | None
    """flash, efficient, cudnn or math; None when the call raises before a backend is chosen."""
    refused: tuple[tuple[str, str], ...]
    """(backend, torch's reason) for each that rejects the call."""
    certain: bool
    doubts: tuple[str, ...]
    warnings: tuple[str, ...]
    """Known defects of the chosen backend with such a call."""
    error: str
    """The error raised before a backend is chosen; else empty."""
    gpu: str
    math: MathCost | None = None
    """Set when math is chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """What the guard of a training run saw of calls alike (attn_doctor.watch(every=…))."""

    examined: int
    first_step: int
    last_step: int
    rows: int
    nonfinite_rows: int
    """Rows of outputs that are not finite although q, k and v are."""
    nonfinite_step: int | None
    spoiled_calls: int
    """Calls whose q, k or v were not finite themselves."""
    nan_gradients: int
    nan_gradient_step: int | None
    shadowed_rows: int
    """Rows that were computed in float64 as well."""
    wrong_rows: int
    worst: float | None
    """Largest error of a row, divided by what it is made of: the weights times the absolute values of v."""
    limit: float | None
    worst_step: int | None
    worst_row: tuple[int, ...]
    """Batch, head and row."""
    not_shadowed: str
    """Why no row was computed in float64; empty when rows were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCall:
    """One attention call; calls that are equal in several layers are folded into one."""

    name: str
    library: str
    verdict: str
    """raises, silently mixed, promoted then repaired, or clean."""
    stand_in: str
    """What ran in place of the kernel, in words; empty when the kernel itself ran."""
    needs_gpu: bool
    """A stand-in ran only because there is no GPU; the kernel is installed."""
    """What stood in for the kernel, empty when it ran itself."""
    error: str
    place: Place | None
    modules: tuple[str, ...]
    calls: int
    head_dim: int | None
    autocast: str | None
    operands: tuple[Arrived, ...]
    broken: tuple[Broken, ...]
    backend: Backend | None = None
    """None for kernels other than SDPA, and when its choice cannot be predicted."""
    written_out: bool = False
    """No attention kernel was called: softmax(q k^T) v in the model's own ops."""
    guarded: Guarded | None = None
    """Set in the report of a guard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A call that changed the dtype before a broken attention call."""

    id: int
    place: Place | None
    call: str
    ops: tuple[str, ...]
    module: str
    kind: str
    dtype_in: str
    dtype_out: str
    operands: tuple[Operand, ...]
    born: tuple[str, ...]
    """Where the wider operand comes from, in words."""
    roles: tuple[str, ...]
    modules: tuple[str, ...]
    calls: int
    latent: bool
    """It appears only after the first promotion is fixed."""
    cast_back: Place | None = None
    """The code that should have cast back, when that is a call other than the promotion itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """One operand of a call that raised: its dtype, and where that came from."""

    dtype: str
    promotion: Promotion | None
    """The last call that changed its dtype into this one."""
    born: tuple[str, ...]
    """The parameters, inputs or casts where the dtype originated, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A call outside attention that raised."""

    call: str
    place: Place | None
    module: str
    operands: tuple[Fed, ...]
    over_dtypes: bool
    """It raised because its operands' dtypes differ, not for another reason."""
    message: str

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(one.dtype for one in self.operands)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelVerdict:
    """Result for one Triton kernel on a GPU that is not present."""

    kernel: str
    gpu: str
    outcome: str
    message: str
    call_site: str
    required_bytes: int | None
    limit_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One traced run."""

    outcome: str
    """finished, stopped, raised, could not run, watched, under way"""
    verdict: str | None
    """The worst verdict over all attention calls; None when there was none, which does not mean clean."""
    words: str
    """The program that was run, in words."""
    rules: str
    """The device whose dtype rules applied."""
    gpu: str
    """The GPU it ran on, or for which it was judged; empty when neither applies."""
    gpu_assumed: bool
    """A default GPU was assumed: none was named, and none is present."""
    not_simulated: tuple[str, ...]
    stood_in: tuple[str, ...]
    """Libraries that the program imports, are not installed, and were replaced by stand-ins."""
    calls: tuple[AttentionCall, ...]
    promotions: tuple[Promotion, ...]
    counterfactual: str
    """How latent promotions were searched for, in words; empty for a clean run."""
    failure: Failure | None
    launches: int
    """Number of different Triton launches."""
    kernels: tuple[KernelVerdict, ...]
    """Results of compiling them for the GPU."""
    error_kind: str
    error: str
    """One sentence that includes how far the run came; empty when nothing failed."""
    seconds: float | None
    traceback: str = ""
    """The last lines of the error's traceback; else empty."""
    slow_paths: tuple[str, ...] = ()
    """`function: library`, for each that runs as torch operations because that library is not installed."""

    @property
    def seen(self) -> bool:
        """True when the run showed something to judge: an attention call, or the result for a kernel."""
        return self.verdict is not None or bool(self.kernels)
