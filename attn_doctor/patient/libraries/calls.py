"""Operands for the sample calls of attention functions, on the GPU. Imports torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, Tuple

import torch

if TYPE_CHECKING:
    from ..arguments import Function, Given
    from ..kernels.problems import Problem

BATCH, LENGTH, HEADS, HEAD_DIM = 1, 64, 2, 64


def qkv(dtype: str) -> List[torch.Tensor]:
    """q, k and v (batch, length, heads, head_dim), each a leaf that requires its gradient."""
    shape = (BATCH, LENGTH, HEADS, HEAD_DIM)
    return [torch.randn(shape, dtype=getattr(torch, dtype), device="cuda", requires_grad=True) for _ in "qkv"]


def options_of(problem: Problem) -> Given:
    """Scale, causal, window and soft cap of a trial as FlashAttention names them; packed sequences are causal."""
    given: Given = {"softmax_scale": problem.scale, "causal": problem.causal or problem.documents is not None}
    if problem.window is not None:
        given.update(causal=True, window_size=(problem.window - 1, 0))
    if problem.softcap is not None:
        given["softcap"] = problem.softcap
    if torch.are_deterministic_algorithms_enabled():  # which these libraries do not ask for
        given["deterministic"] = True
    return given


def batched(problem: Problem) -> List[torch.Tensor]:
    """q, k and v of a trial as (batch, length, heads, head_dim)."""
    return [t.transpose(1, 2) for t in (problem.q, problem.k, problem.v)]


def packed(problem: Problem) -> List[torch.Tensor]:
    """q, k and v of a trial with packed sequences as (tokens, heads, head_dim)."""
    return [t[0].transpose(0, 1) for t in (problem.q, problem.k, problem.v)]


def ends_of(problem: Problem) -> Tuple[torch.Tensor, int]:
    """Where the packed sequences of a trial begin and end, int32, and the longest length."""
    documents = problem.documents or []
    ends = torch.tensor([0, *documents], device=problem.device).cumsum(0, dtype=torch.int32)
    return ends, max(documents)


def output_of(returned: Any) -> torch.Tensor:
    """The output, also where a function returns the log-sum-exp with it without being asked."""
    found: torch.Tensor = returned[0] if isinstance(returned, tuple) else returned
    return found


def causal_sample(function: Function, dtype: str) -> Callable[[], Any]:
    """A causal call of a FlashAttention function."""
    q, k, v = qkv(dtype)
    return lambda: function(q, k, v, causal=True)
