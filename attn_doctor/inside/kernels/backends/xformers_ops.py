"""xformers.ops.memory_efficient_attention, which picks one of its operators."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import torch

from ..problems import Problem
from ..registry import Backend


def prepare(problem: Problem, backend: Backend) -> Callable[[], torch.Tensor]:
    from xformers import ops

    bias = _bias(problem)

    def compute() -> torch.Tensor:
        out = ops.memory_efficient_attention(**_operands(problem), attn_bias=bias, p=0.0, scale=problem.scale)
        return (out.flatten(2, 3) if problem.gqa else out).transpose(1, 2)

    return compute


def chosen(problem: Problem) -> Optional[str]:
    """The operator for the forward pass, as xformers names it, such as "cutlassF-pt"; None where it cannot be asked."""
    try:
        from xformers.ops import fmha
        from xformers.ops.fmha import dispatch

        asked = fmha.Inputs(**_operands(problem), attn_bias=_bias(problem), p=0.0, scale=problem.scale)
        asked.normalize_bmhk()
        return str(dispatch._dispatch_fw(asked, problem.cell.direction == "train").NAME)
    except Exception:  # noqa: BLE001
        return None  # private to it: it may be gone in any release


def _bias(problem: Problem) -> Any:
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


def _operands(problem: Problem) -> Dict[str, torch.Tensor]:
    """(batch, length, heads, head_dim); with fewer key-value heads (batch, length, groups, heads of one, head_dim)."""
    q, k, v = (t.transpose(1, 2) for t in (problem.q, problem.k, problem.v))
    if problem.gqa:
        groups = k.shape[2]
        share = q.shape[2] // groups
        q = q.unflatten(2, (groups, share))
        k, v = (t.unsqueeze(3).expand(-1, -1, -1, share, -1) for t in (k, v))
    return {"query": q, "key": k, "value": v}
