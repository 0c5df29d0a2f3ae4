"""xformers: the contract of memory_efficient_attention, and its calls in trials and samples.

Its stand-in is in xformers_stand_in.py.

Source: facebookresearch/xformers, xformers/ops/fmha/{__init__,common,dispatch,flash,flash3,cutlass}.py (tags 0.0.29 to
0.0.35).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Dict, List, Optional

from ..dtypes import HALVES
from .contract import RAISES, Call, Clause, equal_dtypes
from .library import Backend, Library, Sampled
from .xformers_stand_in import modules

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels.problems import Problem

_NO_OPERATOR = "No operator found for `memory_efficient_attention_forward` with inputs:"


def clauses(call: Call) -> List[Clause]:
    """The function's own checks, then whether one of its operators accepts the call.

    The half-precision operators (FlashAttention's) accept no tensor mask; CUTLASS's accepts one, and float32, on GPUs
    up to 9.0.
    """
    q, k, v = call.kinds
    message = (
        "Query/Key/Value should either all have the same dtype, or (in the quantized case) Key/Value should have "
        "dtype torch.int32\n  query.dtype: torch.{}\n  key.dtype  : torch.{}\n  value.dtype: torch.{}".format(q, k, v)
    )
    found = [equal_dtypes(call.operands, None, RAISES, message, "ValueError")]
    found.extend(_bias(call))
    found.extend(_operator(call))
    if call.options.get("softcap"):
        found.append(Clause("no soft cap", False, RAISES, "memory_efficient_attention has no softcap argument"))
    if call.options.get("grouped") and call.backward:
        message = "MQA/GQA is an experimental feature supported only for the forward pass."
        found.append(Clause("no gradients with fewer k/v heads", False, RAISES, message))
    if call.options.get("window") and q == "float32" and call.backward:
        bias = "LowerTriangularFromBottomRightLocalAttentionMask"
        message = "cutlassB, its one operator for float32, takes no bias of type " + bias
        found.append(Clause("no window in float32 with gradients", False, RAISES, message))
    return found


def _bias(call: Call) -> List[Clause]:
    bias, q = call.operands.get("mask"), call.operands["q"]
    if bias is None:
        return []
    found = []
    shape = (q.shape[0], q.shape[2], q.shape[1], call.operands["k"].shape[1]) if len(q.shape) == 4 else bias.shape
    if not call.options.get("described"):
        message = "Invalid shape for attention bias: torch.Size({}) (expected {})".format(list(bias.shape), shape)
        words = "attn_bias has a row for each query of each head"
        found.append(Clause(words, bias.shape == shape, RAISES, message, ("mask",), "ValueError"))
    message = "invalid dtype for bias - should match query's dtype"
    reason = "attn_bias is no boolean mask" if bias.kind == "bool" else ""
    found.append(Clause("attn_bias has the dtype of q", bias.kind == q.kind, RAISES, message, ("mask",), reason=reason))
    return found


def _operator(call: Call) -> List[Clause]:
    q = call.operands["q"]
    found = []

    def needs(words: str, kept: bool, why: str) -> None:
        found.append(Clause(words, kept, RAISES, _NO_OPERATOR + "\n" + why, ("q",), "NotImplementedError", reason=why))

    eight = q.kind.startswith("float8")
    why = (
        "memory_efficient_attention takes no float8" if eight else "dtype=torch.{} is supported by none".format(q.kind)
    )
    needs("q is float16, bfloat16 or float32", q.kind in (*HALVES, "float32"), why)
    step = 8 if q.kind in HALVES else 4
    if isinstance(q.head_dim, int):
        words = "the head dimension is a multiple of 8, in float32 of 4"
        needs(words, q.head_dim % step == 0, "query.shape[-1] % {} != 0".format(step))
    if q.stride is not None and q.stride[-1] > 1:
        needs("q's last stride is 1", False, "query.stride(-1) > 1 (query.stride() = {})".format(q.stride))
    output = call.options.get("output_dtype")
    needs("the output has q's dtype", output is None or output == q.kind, "Custom output dtype not supported")
    if q.kind not in HALVES or "mask" in call.operands or call.at_least < (8, 0):
        why = "cutlassF requires device with capability <= (9, 0)"
        needs("an operator without FlashAttention knows the GPU", call.at_least <= (9, 0), why)
    return found


def prepare(problem: Problem, backend: Backend) -> Callable[[], Tensor]:
    from xformers import ops

    bias = _bias_of(problem)

    def compute() -> Tensor:
        out = ops.memory_efficient_attention(**_operands(problem), attn_bias=bias, p=0.0, scale=problem.scale)
        return (out.flatten(2, 3) if problem.gqa else out).transpose(1, 2)

    return compute


def chosen(problem: Problem) -> Optional[str]:
    """The operator for the forward pass, as xformers names it, such as "cutlassF-pt"; None when it has no API for
    it.
    """
    try:
        from xformers.ops import fmha
        from xformers.ops.fmha import dispatch

        asked = fmha.Inputs(**_operands(problem), attn_bias=_bias_of(problem), p=0.0, scale=problem.scale)
        asked.normalize_bmhk()
        return str(dispatch._dispatch_fw(asked, problem.cell.direction == "train").NAME)
    except Exception:  # noqa: BLE001
        return None  # private to it: may be missing in any release


def _bias_of(problem: Problem) -> object:
    from xformers.ops.fmha import attn_bias

    if problem.documents is not None:
        return attn_bias.BlockDiagonalCausalMask.from_seqlens(problem.documents)
    if problem.window is not None:
        return attn_bias.LowerTriangularFromBottomRightLocalAttentionMask(problem.window)
    if problem.causal:
        return attn_bias.LowerTriangularMask()
    if problem.mask is not None:
        batch, heads, length, _ = problem.q.shape
        return problem.mask.expand(batch, heads, length, problem.k.shape[2])
    return None


def _operands(problem: Problem) -> Dict[str, Tensor]:
    """(batch, length, heads, head_dim); with fewer key-value heads (batch, length, groups, heads per group,
    head_dim).
    """
    q, k, v = (t.transpose(1, 2) for t in (problem.q, problem.k, problem.v))
    if problem.gqa:
        groups = k.shape[2]
        share = q.shape[2] // groups
        q = q.unflatten(2, (groups, share))
        k, v = (t.unsqueeze(3).expand(-1, -1, -1, share, -1) for t in (k, v))
    return {"query": q, "key": k, "value": v}


def sample(dtype: str) -> Callable[[], Tensor]:
    """A call without a bias."""
    from xformers.ops import memory_efficient_attention

    from .calls import qkv

    q, k, v = qkv(dtype)
    return lambda: memory_efficient_attention(q, k, v)


LIBRARY = Library(
    name="xformers",
    order=40,
    module="xformers",
    distributions=("xformers",),
    imports="xformers.ops",  # the bare package hides a failing extension; models import this
    kernels_in=("xformers._C",),
    apart=("torch",),  # 0.0.34 requires one torch but runs on others
    errors="xformers",
    in_logs=("x[Ff]ormers|Xformers",),
    in_messages=("x[Ff]ormers|Xformers", r"\bthis function is for sm\d{2,3}, but was built for"),
    operators=(r"\bfmha_cutlass", "memory_efficient_attention"),
    parts=("_C_flashattention", "_C_flashattention3"),
    functions=((r"xformers\.ops(\.fmha)?$", r"memory_efficient_attention\w*$"),),
    clauses=clauses,
    modules=modules,
    words="xformers stand-in: the checks of its inputs, the arithmetic of torch",
    newest="0.0.35",
    backends=(
        Backend(
            name="xformers",
            title="xformers",
            calls="xformers",
            apart_from="flash-attn-3",
            chooses=True,
            whole=True,
        ),
    ),
    samples=(
        Sampled(
            name="xformers-memory-efficient-attention",
            words="xformers, memory_efficient_attention",
            factory="xformers:sample",
        ),
    ),
)
