"""The request to the tracer and its answer, as types: the keys that ../trace/__init__.py explains, and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, TypedDict, Union

if TYPE_CHECKING:
    from ..libraries.contract import Kept
    from ..simulate.cuda.simulated_gpu import Described

Length = Union[int, str]
"""A dimension; in words where it has no number."""


class Request(TypedDict, total=False):
    """The request; a missing key means the same as None."""

    task: str
    kind: str
    target: str
    args: Optional[List[str]]
    kwargs: Optional[Dict[str, str]]
    dtype: Optional[str]
    autocast: Optional[str]
    attn: Optional[str]
    backward: Optional[bool]
    calls: Optional[int]
    rules: Optional[str]
    gpu: Optional[Described]
    flash_attn_version: Optional[str]
    stand_ins: Optional[List[str]]
    counterfactual: Optional[bool]
    trust_remote_code: Optional[bool]
    batch: Optional[int]
    length: Optional[int]
    shrink: bool
    cwd: Optional[str]
    sys_path: Optional[List[str]]
    env: Optional[Dict[str, str]]
    scratch: Optional[str]
    compile_kernels: Optional[bool]
    kernel_timeout: Optional[float]
    kernel_budget: Optional[float]
    kernel_configurations: Optional[str]


class Place(TypedDict):
    """A source line; all None when there is no user line."""

    file: Optional[str]
    line: Optional[int]
    function: Optional[str]
    source: Optional[str]


Label = TypedDict("Label", {"dtype": str, "name": Optional[str], "kind": str})
"""A short description of an operand."""


class Birth(TypedDict):
    """The origin of a dtype."""

    kind: str
    name: Optional[str]
    op: Optional[str]
    dtype: str
    call: Optional[str]
    at: Optional[Place]
    module: Optional[str]


class Step(Place):
    """One call on an operand's path."""

    call: str
    ops: List[str]
    module: Optional[str]
    dtype_in: Optional[str]
    dtype_out: str
    operands: List[Label]
    changed: bool


class Change(Place):
    """A call that changed a dtype."""

    call: str
    ops: List[str]
    module: Optional[str]
    dtype_in: Optional[str]
    dtype_out: str
    operands: List[Label]
    autocast: bool
    kind: str
    born: List[Birth]


class CastBack(Place):
    """The place where a result should have been cast back."""

    call: str
    to: str


class Promotion(Change):
    """A promoting call and its effect."""

    cast_back: Optional[CastBack]
    id: int
    roles: List[str]
    modules: List[str]
    calls: int
    latent: bool
    found_in_run: int
    can_be_tried: bool


class Operand(TypedDict):
    """An operand as its kernel received it."""

    dtype: str
    shape: List[Length]
    stride: Optional[List[int]]
    head_dim: Optional[Length]
    last_dim_contiguous: Optional[bool]
    blamed: bool
    all_along: bool
    promotion: Optional[int]
    born: List[Birth]
    path: List[Step]


Way = TypedDict("Way", {"backend": Optional[str], "words": str})
"""A change that would get another backend."""


class MathCost(TypedDict):
    """The cost of torch's math backend."""

    q_length: int
    k_length: int
    score_bytes: int
    operand_bytes: int
    ways: List[Way]


class Taken(TypedDict):
    """The backend that torch's SDPA would choose."""

    taken: Optional[str]
    refused: Dict[str, str]
    certain: bool
    doubts: List[str]
    warnings: List[str]
    error: Optional[str]
    gpu: str
    torch: str


class Backend(Taken):
    """The backend of a call, with its reasons."""

    math: Optional[MathCost]


class Raised(TypedDict):
    """The error that an attention call raised."""

    type: str
    message: str
    predicted: bool
    at: Optional[Place]


class Within(TypedDict):
    """A kernel or function that ran within a call."""

    name: str
    dtypes: Dict[str, str]


class Call(TypedDict):
    """An attention call, or several equal ones."""

    name: str
    library: str
    stand_in: Optional[str]
    needs_gpu: bool
    verdict: str
    error: Optional[Raised]
    contract: List[Kept]
    autocast: Optional[str]
    operands: Dict[str, Operand]
    head_dim: Optional[Length]
    at: Optional[Place]
    stack: List[Optional[Place]]
    modules: List[str]
    calls: int
    first_call: int
    backward: bool
    inside: List[Within]
    backend: Optional[Backend]
    written_out: bool


class Run(TypedDict):
    """A counterfactual run."""

    mended: int
    verdict: Optional[str]
    error: Optional[str]
    attention_calls: int


class Remedy(TypedDict):
    """A call whose results were cast back."""

    file: str
    line: int
    function: str
    call: str
    to: str


class Counterfactual(TypedDict):
    """The results of runs in which promoting calls were cast back."""

    runs: List[Run]
    clean_after: Optional[int]
    words: str
    remedies: List[Remedy]


class FailedOperand(Label):
    """An operand of a torch function that raised."""

    shape: List[Length]
    promotion: Optional[Change]
    born: List[Birth]


class Failure(TypedDict):
    """The torch function that raised outside any attention call."""

    call: str
    at: Optional[Place]
    module: Optional[str]
    operands: List[FailedOperand]
    mixed: bool


class Launch(TypedDict):
    """A kind of Triton launch."""

    kernel: str
    dtypes: Dict[str, str]
    at: Optional[Place]
    module: Optional[str]


class Progress(TypedDict):
    """How far the run came."""

    ops: int
    attention_calls: int
    module_calls: int
    triton_launches: int
    last: Optional[Place]
    module: Optional[str]


class Error(TypedDict):
    """The error with which the run ended early."""

    kind: str
    type: str
    message: str
    at: Optional[Place]
    words: str
    traceback: Optional[str]


class Rules(TypedDict):
    """The rules that applied."""

    name: str
    words: str
    gpu: Optional[Described]
    autocast_source: Optional[str]
    torch: str
    fake: bool
    not_simulated: List[str]
    stood_in: List[str]


class Entry(TypedDict):
    """The request, repeated."""

    kind: Optional[str]
    target: Optional[str]
    args: Optional[List[str]]
    kwargs: Optional[Dict[str, str]]
    dtype: Optional[str]
    autocast: Optional[str]
    attn: Optional[str]
    backward: Optional[bool]
    words: Optional[str]


class Form(TypedDict):
    """One form of call."""

    name: str
    library: str
    by_heads: bool
    """(batch, heads, length, head_dim); else (batch, length, heads, head_dim), packed ones without the batch."""
    dtypes: Dict[str, str]
    shapes: Dict[str, List[int]]
    strides: Dict[str, Optional[List[int]]]
    flags: Dict[str, Any]
    """causal, dropout, scale, window, softcap, gqa, documents."""
    autocast: Optional[str]
    trains: bool
    backend: Optional[str]
    calls: int
    place: Optional[str]


class Answer(TypedDict):
    """trace.json."""

    schema: str
    outcome: str
    verdict: Optional[str]
    entry: Optional[Entry]
    rules: Optional[Rules]
    attention: List[Call]
    forms: List[Form]
    promotions: List[Promotion]
    counterfactual: Optional[Counterfactual]
    failure: Optional[Failure]
    launches: List[Launch]
    slow_paths: List[str]
    progress: Optional[Progress]
    error: Optional[Error]
    judged: Optional[str]
    seconds: Optional[float]
