"""xformers.ops without its kernels: memory_efficient_attention, refusing what xformers refuses.

Source: facebookresearch/xformers, xformers/ops/fmha/__init__.py and common.py (0.0.35).
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict

import torch

from .. import contracts
from . import core

_WORDS = "xformers stand-in: the checks of its inputs, the arithmetic of torch"


class LowerTriangularMask:
    """What callers pass for a causal mask."""


def modules(attention: Any) -> Dict[str, Callable[[Any], None]]:
    def memory_efficient_attention(
        query: Any,
        key: Any,
        value: Any,
        attn_bias: Any = None,
        p: float = 0.0,
        scale: Any = None,
        *,
        op: Any = None,
        output_dtype: Any = None,
    ) -> Any:
        tensors = {"q": query, "k": key, "v": value}
        if isinstance(attn_bias, torch.Tensor):
            tensors["mask"] = attn_bias

        def compute() -> Any:
            # Three dimensions are (batch, length, dim) with one head; five are (batch, length, groups, ...).
            if query.dim() == 3:
                out = core.attention(*(t.unsqueeze(2) for t in (query, key, value)), scale=scale).squeeze(2)
            elif query.dim() == 5:
                parts = (t.flatten(2, 3) for t in (query, key, value))
                out = core.attention(*parts, scale=scale).unflatten(2, tuple(query.shape[2:4]))
            else:
                out = core.attention(query, key, value, isinstance(attn_bias, LowerTriangularMask), scale)
            return out.to(output_dtype) if output_dtype is not None else out

        return attention.attend(
            "memory_efficient_attention",
            "xformers",
            tensors,
            lambda o, a: contracts.xformers(o),
            lambda: core.quietly(attention.recorder, compute),
            stand_in=_WORDS,
            frame=sys._getframe(1),
        )

    memory_efficient_attention._attn_doctor_original = memory_efficient_attention

    def package(module: Any) -> None:
        module.__version__ = "0.0.35"
        module.__path__ = []

    def ops(module: Any) -> None:
        module.__path__ = []
        module.memory_efficient_attention = memory_efficient_attention
        module.LowerTriangularMask = LowerTriangularMask

    def bias(module: Any) -> None:
        module.LowerTriangularMask = LowerTriangularMask

    return {
        "xformers": package,
        "xformers.ops": ops,
        "xformers.ops.fmha": ops,
        "xformers.ops.fmha.attn_bias": bias,
    }
