"""A dtype trace: which op, at which line, gave q, k or v the dtype with which it reached an attention kernel."""

from __future__ import annotations

from dataclasses import dataclass

#: What a clean verdict rests on, and what it says nothing of.
JUDGED = "dtypes and backends; values, masks and packing were not examined"


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
    """What an op was given besides the data that flows through it."""

    dtype: str
    name: str | None
    """Of the parameter, buffer or attribute, when it has one."""
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call on the way from a projection to a kernel."""

    place: Place | None
    call: str
    module: str
    dtype_in: str
    dtype_out: str
    changed: bool
    operands: tuple[Operand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """q, k, v or a mask as the kernel got it."""

    role: str
    dtype: str
    shape: tuple[int, ...]
    blamed: bool
    all_along: bool
    """It has had this dtype since its projection: no single call is to blame."""
    promotion: int | None
    path: tuple[Step, ...]
    born: tuple[str, ...] = ()
    """Where the dtype of a blamed operand comes from, in words."""

    @property
    def began(self) -> Step | None:
        """The call that made it, in the dtype it still has; None where it is not blamed, was promoted or is given."""
        return self.path[0] if self.blamed and self.all_along and self.path else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A part of a kernel's contract that a call does not keep."""

    words: str
    effect: str
    message: str
    roles: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MathCost:
    """What SDPA's math fallback costs a call that no fused backend takes, and what would change that."""

    q_length: int
    k_length: int
    score_bytes: int
    """Of the matrix of scores, which fused backends do not hold."""
    operand_bytes: int
    """Of q, k, v and the output, which all hold."""
    ways: tuple[tuple[str, str], ...]
    """(backend, what to change to get it)."""

    @property
    def why_small(self) -> str:
        """Why nobody need mind it, in words; empty where it costs."""
        if self.q_length <= 1:
            return "one query takes one row of scores, as a step of decoding does"
        if self.score_bytes < _NOTED_BYTES:
            return f"the scores of these lengths ({self.q_length} and {self.k_length}) are small"
        if self.score_bytes <= self.operand_bytes:
            return "the scores take no more than q, k, v and the output at this length"
        return ""


#: Below this no memory is won by another backend: a smoke test's shapes.
_NOTED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What torch's SDPA would run on that GPU, by torch's own rules."""

    taken: str | None
    """flash, efficient, cudnn or math; None when the call raises before one is chosen."""
    refused: tuple[tuple[str, str], ...]
    """(backend, torch's reason) for each that cannot take the call."""
    certain: bool
    doubts: tuple[str, ...]
    warnings: tuple[str, ...]
    """What the backend taken is known to do wrong with such a call."""
    error: str
    """What is raised before a backend is chosen; empty otherwise."""
    gpu: str
    math: MathCost | None = None
    """Where math is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCall:
    """One attention call, folded over the layers that make it alike."""

    name: str
    library: str
    verdict: str
    """raises, silently mixed, promoted then repaired, or clean"""
    stand_in: str
    """What ran in place of the kernel, in words; empty where the kernel itself ran."""
    needs_gpu: bool
    """That is for want of a GPU alone: the kernel is installed."""
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
    """None for other kernels than SDPA's, and where its choice cannot be told."""
    written_out: bool = False
    """No attention kernel was called: softmax(q k^T) v in the model's own ops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A call that changed the dtype on the way to a broken attention call."""

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
    """Where the wide operand comes from, in words."""
    roles: tuple[str, ...]
    modules: tuple[str, ...]
    calls: int
    latent: bool
    """It only shows once the first culprit is mended."""
    cast_back: Place | None = None
    """Where the code that promoted should have cast back, when that is another call of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """One operand of a call that raised: its dtype, and how it came to it."""

    dtype: str
    promotion: Promotion | None
    """The last call that changed its dtype into this one."""
    born: tuple[str, ...]
    """The parameters, inputs or casts that the dtype began with, in words."""


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
    """What becomes of one Triton kernel on the GPU that is not there."""

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
    """The gravest of all attention calls; None when none was seen, which is no clean bill."""
    words: str
    """What was run."""
    rules: str
    """Whose dtype rules held."""
    gpu: str
    """The GPU it ran on, or as on which it was judged; empty when it came to neither."""
    gpu_assumed: bool
    """Nobody named that GPU, and none is there."""
    not_simulated: tuple[str, ...]
    stood_in: tuple[str, ...]
    """Libraries that the program imports and that are not there, for which something stood in."""
    calls: tuple[AttentionCall, ...]
    promotions: tuple[Promotion, ...]
    counterfactual: str
    """How the latent promotions were looked for, in words; empty for a clean run."""
    failure: Failure | None
    launches: int
    """How many sorts of Triton launches were met."""
    kernels: tuple[KernelVerdict, ...]
    """What becomes of them on the GPU, where they were compiled for it."""
    error_kind: str
    error: str
    """One sentence that also says how far the run came; empty when nothing went wrong."""
    seconds: float | None
    traceback: str = ""
    """The last of the traceback that the error came with; empty without one."""

    @property
    def seen(self) -> bool:
        """Something was seen that a verdict can rest on: an attention call, or what becomes of a kernel."""
        return self.verdict is not None or bool(self.kernels)
