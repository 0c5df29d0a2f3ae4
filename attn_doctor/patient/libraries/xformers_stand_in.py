"""The stand-in for xformers: its masks, the signatures of its functions, and their return values.

Source: those of xformers.py.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from .contract import release_of

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from torch import Tensor

    from ..arguments import Given, Keywords, Positional
    from .library import Attention, Fill, Meet

_CALL = "query, key, value, attn_bias=None, p=0.0, scale=None"


PARAMETERS: Dict[str, str] = {
    "memory_efficient_attention": _CALL + ", *, op=None, output_dtype=None",
    "memory_efficient_attention_forward": _CALL + ", *, op=None, output_dtype=None",
    "memory_efficient_attention_forward_requires_grad": _CALL + ", *, op=None, output_dtype=None",
}


_WITH_FLASH_3 = ((0, 0, 31), (0, 0, 34))
"""First and last release whose wheels contain the kernels of FlashAttention 3, for 8.0 to 9.0."""


class AttentionBias:
    """Masks that have a name instead of a tensor."""


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
