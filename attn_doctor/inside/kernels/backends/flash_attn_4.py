"""FlashAttention 4: flash_attn_func and flash_attn_varlen_func of flash_attn.cute, compiled when they are called."""

from __future__ import annotations

from typing import Any, Callable, Dict

import torch

from ..problems import Problem
from ..registry import Backend


def prepare(problem: Problem, backend: Backend) -> Callable[[], torch.Tensor]:
    from flash_attn.cute import flash_attn_func, flash_attn_varlen_func

    given: Dict[str, Any] = {"softmax_scale": problem.scale, "causal": problem.causal}
    if problem.window is not None:
        given.update(causal=True, window_size=(problem.window - 1, 0))
    if problem.softcap is not None:
        given["softcap"] = problem.softcap
    if problem.documents is None:

        def compute() -> torch.Tensor:
            q, k, v = (t.transpose(1, 2) for t in (problem.q, problem.k, problem.v))
            return _out(flash_attn_func(q, k, v, **given)).transpose(1, 2)

        return compute
    ends = torch.tensor([0, *problem.documents], device=problem.device).cumsum(0, dtype=torch.int32)
    longest = max(problem.documents)
    # By name: between its betas an operand came in before these.
    packing = {"cu_seqlens_q": ends, "cu_seqlens_k": ends, "max_seqlen_q": longest, "max_seqlen_k": longest}
    given["causal"] = True

    def packed() -> torch.Tensor:
        q, k, v = (t[0].transpose(0, 1) for t in (problem.q, problem.k, problem.v))
        return _out(flash_attn_varlen_func(q, k, v, **packing, **given)).transpose(0, 1)[None]

    return packed


def _out(given_back: Any) -> torch.Tensor:
    """It gives the log-sum-exp beside the output, whether it was asked for or not."""
    return given_back[0] if isinstance(given_back, tuple) else given_back
