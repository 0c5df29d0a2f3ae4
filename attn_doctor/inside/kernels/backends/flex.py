"""torch.nn.attention.flex_attention, compiled: uncompiled it is the plain recipe."""

from __future__ import annotations

from typing import Any, Callable

import torch

from ..problems import Problem
from ..registry import Backend


def prepare(problem: Problem, backend: Backend) -> Callable[[], torch.Tensor]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    length = problem.q.shape[-2]
    allowed, bias, cap = problem.allowed(), problem.bias(), problem.softcap
    block_mask = None
    if allowed is not None:
        seen = allowed.reshape(length, length)

        def mask_mod(batch: Any, head: Any, query: Any, key: Any) -> Any:
            return seen[query, key]

        block_mask = create_block_mask(mask_mod, None, None, length, length, device=str(problem.device))
    score_mod = None
    if bias is not None:
        table = bias.reshape(length, length)

        def score_mod(score: Any, batch: Any, head: Any, query: Any, key: Any) -> Any:
            return score + table[query, key]

    elif cap is not None:

        def score_mod(score: Any, batch: Any, head: Any, query: Any, key: Any) -> Any:
            return torch.tanh(score / cap) * cap

    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: compiled(
        problem.q,
        problem.k,
        problem.v,
        score_mod=score_mod,
        block_mask=block_mask,
        scale=problem.scale,
        enable_gqa=problem.gqa,
    )
