"""xformers: the contract of memory_efficient_attention, and what stands in for it.

Source: facebookresearch/xformers, xformers/ops/fmha/{__init__,common,dispatch,flash,flash3,cutlass}.py (tags 0.0.29 to
0.0.35).
"""

from __future__ import annotations

import functools
import importlib
import itertools
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from .contract import HALVES, RAISES, Call, Clause, equal_dtypes, release_of
from .library import Backend, Library, Sampled

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from torch import Tensor

    from ..arguments import Given, Keywords, Positional
    from ..kernels.problems import Problem
    from .library import Attention, Fill, Meet

_NO_OPERATOR = "No operator found for `memory_efficient_attention_forward` with inputs:"


def clauses(call: Call) -> List[Clause]:
    """What it checks itself, and then whether one of its operators takes the call.

    An operator for half precision (FlashAttention's) takes no mask that is a tensor; CUTLASS's takes one, and float32,
    on GPUs up to 9.0.
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


_CALL = "query, key, value, attn_bias=None, p=0.0, scale=None"
PARAMETERS: Dict[str, str] = {
    "memory_efficient_attention": _CALL + ", *, op=None, output_dtype=None",
    "memory_efficient_attention_forward": _CALL + ", *, op=None, output_dtype=None",
    "memory_efficient_attention_forward_requires_grad": _CALL + ", *, op=None, output_dtype=None",
}
_WITH_FLASH_3 = ((0, 0, 31), (0, 0, 34))
"""First and last release whose wheels bring the kernels of FlashAttention 3, for 8.0 to 9.0."""


class AttentionBias:
    """What callers pass for a mask that has a name."""


class LowerTriangularMask(AttentionBias):
    """Causal."""


class LowerTriangularFromBottomRightMask(AttentionBias):
    """Causal, counted from the end."""


class BlockDiagonalMask(AttentionBias):
    """Packed sequences, one after the other."""

    def __init__(self, q_seqlen: List[int], kv_seqlen: Optional[List[int]] = None) -> None:
        self.q_seqlen, self.kv_seqlen = list(q_seqlen), list(kv_seqlen or q_seqlen)
        self._batch_sizes: Optional[List[int]] = None

    @classmethod
    def from_seqlens(
        cls, q_seqlen: List[int], kv_seqlen: Optional[List[int]] = None, **more: object
    ) -> BlockDiagonalMask:
        return cls(q_seqlen, kv_seqlen)

    @classmethod
    def from_tensor_list(cls, tensors: List[Tensor]) -> Tuple[BlockDiagonalMask, Tensor]:
        """The mask, and (1, tokens, ...) of the tensors (batch, length, ...)."""
        import torch

        mask = cls([length for t in tensors for length in [int(t.shape[1])] * int(t.shape[0])])
        mask._batch_sizes = [int(t.shape[0]) for t in tensors]
        return mask, torch.cat([t.reshape(1, -1, *t.shape[2:]) for t in tensors], dim=1)

    def make_causal(self) -> BlockDiagonalMask:
        return BlockDiagonalCausalMask(self.q_seqlen, self.kv_seqlen)

    def split(self, tensor: Tensor) -> List[Tensor]:
        """The tensors that from_tensor_list was given."""
        sizes = self._batch_sizes or [1] * len(self.q_seqlen)
        found, at, place = [], 0, 0
        for size in sizes:
            length = self.q_seqlen[at]
            found.append(tensor[:, place : place + size * length].reshape(size, length, *tensor.shape[2:]))
            at, place = at + size, place + size * length
        return found


class BlockDiagonalCausalMask(BlockDiagonalMask):
    """The same, each causal."""


CAUSAL = (LowerTriangularMask, LowerTriangularFromBottomRightMask, BlockDiagonalCausalMask)


def operator(q: Tensor, bias: object, release: Tuple[int, ...], capability: Tuple[int, int]) -> str:
    """Which of its kernels it picks: "flash 3", "flash 2" or "cutlass"."""
    import torch

    if isinstance(bias, torch.Tensor) or q.dtype not in (torch.float16, torch.bfloat16) or capability < (8, 0):
        return "cutlass"
    if _WITH_FLASH_3[0] <= release <= _WITH_FLASH_3[1] and capability <= (9, 0):
        return "flash 3"
    return "flash 2"


def answer(kind: str, out: Tensor, q: Tensor, v: Tensor, bias: object) -> Tensor:
    """The output in the strides of the kernel: flash 2 allocates it like q, the others without gaps."""
    import torch

    shape = (*q.shape[:-1], v.shape[-1])
    if kind != "flash 2":
        room = q.new_empty(shape)
    else:
        like = q.unsqueeze(2) if q.dim() == 3 else q
        if like.dim() == 5:
            like = like[:, :, :, 0] if like.stride(3) == 0 else like.reshape(*like.shape[:2], -1, like.shape[4])
        if isinstance(bias, BlockDiagonalMask):
            like = like.reshape(-1, *like.shape[2:])
        room = torch.empty_like(like if like.stride(-1) == 1 else like.contiguous()).reshape(shape)
    room.copy_(out)
    return room


def compute(q: Tensor, k: Tensor, v: Tensor, bias: object, scale: Optional[float]) -> Tensor:
    from . import stand_in

    if isinstance(bias, BlockDiagonalMask):
        q, k, v = (t.flatten(2, 3) if t.dim() == 5 else t for t in (q, k, v))
        ends = [[0, *itertools.accumulate(lengths)] for lengths in (bias.q_seqlen, bias.kv_seqlen)]
        return stand_in.packed_attention(q[0], k[0], v[0], ends[0], ends[1], isinstance(bias, CAUSAL), scale)[None]
    causal = isinstance(bias, CAUSAL)
    # Three dimensions are (batch, length, dim) with one head; five are (batch, length, groups, ...).
    if q.dim() == 3:
        return stand_in.attention(q.unsqueeze(2), k.unsqueeze(2), v.unsqueeze(2), causal, scale).squeeze(2)
    if q.dim() == 5:
        flat = stand_in.attention(q.flatten(2, 3), k.flatten(2, 3), v.flatten(2, 3), causal, scale)
        return flat.unflatten(2, q.shape[2:4])
    return stand_in.attention(q, k, v, causal, scale)


def modules(attention: Attention, meet: Meet, version: str) -> Dict[str, Fill]:
    """Module name -> what fills it. `meet(name, where, given, args, kwargs, frame, run)` judges a call and runs it."""
    from . import stand_in
    from .signatures import function

    release = release_of(version)

    def run(name: str, given: Given) -> Any:
        q, k, v, bias = (given[one] for one in ("query", "key", "value", "attn_bias"))
        kind = operator(q, bias, release, attention.conditions.capability)

        def arithmetic(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            out = compute(q, k, v, bias, given["scale"])
            return out.reshape(*q.shape[:-1], v.shape[-1])

        def answered(out: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return answer(kind, out, q, v, bias)

        if name.endswith("forward_requires_grad"):
            out = stand_in.run_without_gradients(attention, arithmetic, answered, (q, k, v))
            return out, q.new_zeros((q.shape[0], *q.shape[2:-1], q.shape[1])).float()
        if name.endswith("forward"):
            return stand_in.run_without_gradients(attention, arithmetic, answered, (q, k, v))
        return stand_in.run(attention, arithmetic, answered, (q, k, v))

    def met(name: str, given: Given, args: Positional, kwargs: Keywords, frame: FrameType) -> object:
        return meet(name, "xformers.ops", given, args, kwargs, frame, lambda: run(name, given))

    functions = {
        name: function(name, words, "xformers.ops.fmha", functools.partial(met, name))
        for name, words in PARAMETERS.items()
    }

    def package(module: ModuleType) -> None:
        module.__path__ = []
        vars(module)["__version__"] = version

    def bias(module: ModuleType) -> None:
        for kind in (AttentionBias, BlockDiagonalMask, LowerTriangularFromBottomRightMask, *CAUSAL):
            setattr(module, kind.__name__, kind)

    def fmha(module: ModuleType) -> None:
        module.__path__ = []
        vars(module).update(functions)
        bias(module)
        vars(module)["attn_bias"] = importlib.import_module("xformers.ops.fmha.attn_bias")

    def ops(module: ModuleType) -> None:
        module.__path__ = []
        vars(module).update(functions)
        bias(module)
        vars(module)["fmha"] = importlib.import_module("xformers.ops.fmha")

    return {
        "xformers": package,
        "xformers.ops": ops,
        "xformers.ops.fmha": fmha,
        "xformers.ops.fmha.attn_bias": bias,
    }


def prepare(problem: Problem, backend: Backend) -> Callable[[], Tensor]:
    from xformers import ops

    bias = _bias_of(problem)

    def compute() -> Tensor:
        out = ops.memory_efficient_attention(**_operands(problem), attn_bias=bias, p=0.0, scale=problem.scale)
        return (out.flatten(2, 3) if problem.gqa else out).transpose(1, 2)

    return compute


def chosen(problem: Problem) -> Optional[str]:
    """The operator for the forward pass, as xformers names it, such as "cutlassF-pt"; None where it cannot be asked."""
    try:
        from xformers.ops import fmha
        from xformers.ops.fmha import dispatch

        asked = fmha.Inputs(**_operands(problem), attn_bias=_bias_of(problem), p=0.0, scale=problem.scale)
        asked.normalize_bmhk()
        return str(dispatch._dispatch_fw(asked, problem.cell.direction == "train").NAME)
    except Exception:  # noqa: BLE001
        return None  # private to it: it may be gone in any release


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
        return problem.mask.expand(batch, heads, length, length)
    return None


def _operands(problem: Problem) -> Dict[str, Tensor]:
    """(batch, length, heads, head_dim); with fewer key-value heads (batch, length, groups, heads of one, head_dim)."""
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
    imports="xformers.ops",  # the bare package hides a failing extension; a model imports this
    kernels_in=("xformers._C",),
    apart=("torch",),  # 0.0.34 asks for one torch and runs on others
    errors="xformers",
    in_logs=("x[Ff]ormers|Xformers",),
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
