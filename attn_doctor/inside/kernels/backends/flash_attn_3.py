"""FlashAttention 3: flash_attn_func and flash_attn_varlen_func of flash_attn_interface, float8 with its scales."""

from __future__ import annotations

from typing import Any, Callable, Dict

import torch

from ..problems import Problem
from ..registry import Backend


def prepare(problem: Problem, backend: Backend) -> Callable[[], torch.Tensor]:
    import flash_attn_interface

    given: Dict[str, Any] = {"softmax_scale": problem.scale, "causal": problem.causal}
    if problem.window is not None:
        given.update(causal=True, window_size=(problem.window - 1, 0))
    if problem.softcap is not None:
        given["softcap"] = problem.softcap
    sequences = len(problem.documents) if problem.documents is not None else problem.q.shape[0]
    for name, scale in problem.scales.items():
        given[name + "_descale"] = scale.expand(sequences, -1).contiguous()
    if problem.documents is None:

        def compute() -> torch.Tensor:
            q, k, v = (t.transpose(1, 2) for t in (problem.q, problem.k, problem.v))
            return _out(flash_attn_interface.flash_attn_func(q, k, v, **given)).transpose(1, 2)

        return compute
    ends = torch.tensor([0, *problem.documents], device=problem.device).cumsum(0, dtype=torch.int32)
    longest = max(problem.documents)
    given["causal"] = True

    def packed() -> torch.Tensor:
        q, k, v = (t[0].transpose(0, 1) for t in (problem.q, problem.k, problem.v))
        out = _out(flash_attn_interface.flash_attn_varlen_func(q, k, v, ends, ends, longest, longest, **given))
        return out.transpose(0, 1)[None]

    return packed


def _out(given_back: Any) -> torch.Tensor:
    """Its first betas gave the log-sum-exp beside the output whether it was asked for or not."""
    return given_back[0] if isinstance(given_back, tuple) else given_back
