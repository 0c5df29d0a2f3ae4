"""xformers.ops.memory_efficient_attention."""

from __future__ import annotations

from typing import Any, Callable

import torch

from ..problems import Problem
from ..registry import Backend


def prepare(problem: Problem, backend: Backend) -> Callable[[], torch.Tensor]:
    from xformers import ops
    from xformers.ops import fmha

    biases = fmha.attn_bias
    bias: Any = None
    if problem.documents is not None:
        bias = biases.BlockDiagonalCausalMask.from_seqlens(problem.documents)
    elif problem.window is not None:
        bias = biases.LowerTriangularFromBottomRightLocalAttentionMask(problem.window)
    elif problem.causal:
        bias = biases.LowerTriangularMask()
    elif problem.mask is not None:
        batch, heads, length, _ = problem.q.shape
        bias = problem.mask.expand(batch, heads, length, length)

    def compute() -> torch.Tensor:
        q, k, v = (t.transpose(1, 2) for t in (problem.q, problem.k, problem.v))
        if problem.gqa:
            groups = k.shape[2]
            share = q.shape[2] // groups
            q = q.unflatten(2, (groups, share))
            k, v = (t.unsqueeze(3).expand(-1, -1, -1, share, -1) for t in (k, v))
        out = ops.memory_efficient_attention(q, k, v, attn_bias=bias, p=0.0, scale=problem.scale)
        return (out.flatten(2, 3) if problem.gqa else out).transpose(1, 2)

    return compute
