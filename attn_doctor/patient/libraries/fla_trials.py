"""flash-linear-attention's chunked kernels, each in one pinned configuration, and the recurrences that they compute.

The recurrences follow the papers' update rules, step by step in float64: gated linear attention
(https://arxiv.org/abs/2312.06635), gated delta rule (https://arxiv.org/abs/2412.06464), gated slot attention
(https://arxiv.org/abs/2409.07146), RWKV-7 (https://arxiv.org/abs/2503.14456). Tensors here are (batch, heads, length,
…); fla takes (batch, length, heads, …).
"""

from __future__ import annotations

import importlib
from typing import Any, Callable, Dict, List

import torch
import torch.nn.functional as F

from ..kernels.cells import Cell
from ..kernels.problems import Problem
from .library import Backend

BATCH, HEADS, LENGTH, SLOTS = 2, 4, 256, 64

Leaves = Dict[str, torch.Tensor]


def make_problem(cell: Cell, device: str, seed: int) -> Problem:
    """The problem: fresh random operands for the cell's kernel."""
    dtype = getattr(torch, cell.dtype)
    generator = torch.Generator(device=device).manual_seed(seed)
    trains = cell.direction == "train"

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, device=device)

    def leaf(tensor: torch.Tensor, wanted: torch.dtype = dtype) -> torch.Tensor:
        return tensor.to(wanted).requires_grad_(trains)

    full, dim = (BATCH, HEADS, LENGTH), cell.head_dim
    q, k, v = normal(*full, dim), normal(*full, dim), normal(*full, dim)
    extra: Leaves = {}
    if cell.backend == "fla-gated-delta-rule":
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        extra = {"g": leaf(F.logsigmoid(normal(*full)), torch.float32), "beta": leaf(normal(*full).sigmoid())}
    elif cell.backend == "fla-gla":
        extra = {"g": leaf(F.logsigmoid(normal(*full, dim)) / 16)}
    elif cell.backend == "fla-gsa":
        extra = {"s": leaf(normal(*full, SLOTS)), "g": leaf(F.logsigmoid(normal(*full, SLOTS)) / 8)}
    elif cell.backend == "fla-rwkv7":
        turned = F.normalize(normal(*full, dim), dim=-1)
        rate = normal(*full, dim).sigmoid()
        extra = {
            "w": leaf(-0.6065306597126334 * normal(*full, dim).sigmoid()),  # RWKV-7's bound: exp(-0.5)
            "a": leaf(-turned),
            "b": leaf(turned * rate),
        }
    return Problem(
        cell=cell,
        q=leaf(q),
        k=leaf(k),
        v=leaf(v),
        out_gradient=normal(*full, dim).to(dtype),
        scale=1.0 if cell.backend == "fla-rwkv7" else dim**-0.5,
        causal=True,
        extra=extra,
    )


def prepare(problem: Problem, backend: Backend) -> Callable[[], torch.Tensor]:
    module, name, order = {
        "fla-gated-delta-rule": ("fla.ops.gated_delta_rule", "chunk_gated_delta_rule", ("q", "k", "v", "g", "beta")),
        "fla-gla": ("fla.ops.gla", "chunk_gla", ("q", "k", "v", "g")),
        "fla-gsa": ("fla.ops.gsa", "chunk_gsa", ("q", "k", "v", "s", "g")),
        "fla-rwkv7": ("fla.ops.rwkv7", "chunk_rwkv7", ("r", "w", "k", "v", "a", "b")),
    }[backend.name]
    function: Any = getattr(importlib.import_module(module), name)

    def compute() -> torch.Tensor:
        given = {**problem.leaves(), "r": problem.q}
        operands = {role: given[role].transpose(1, 2).contiguous() for role in order}
        result = function(**operands, scale=problem.scale)
        return (result[0] if isinstance(result, tuple) else result).transpose(1, 2)

    return compute


def reference(problem: Problem, leaves: Leaves) -> torch.Tensor:
    """The recurrence, step by step, in the dtype of `leaves`."""
    rule = {
        "fla-gated-delta-rule": _gated_delta_rule,
        "fla-gla": _gla,
        "fla-gsa": _gsa,
        "fla-rwkv7": _rwkv7,
    }[problem.cell.backend]
    return rule({**leaves, "q": leaves["q"] * problem.scale})


def _steps(tensor: torch.Tensor) -> List[torch.Tensor]:
    return list(tensor.unbind(2))


def _state(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.zeros(*k.shape[:2], k.shape[-1], v.shape[-1], dtype=k.dtype, device=k.device)


def _outer(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return k[..., :, None] * v[..., None, :]


def _read(q: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
    return (q[..., :, None] * state).sum(-2)


def _gated(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    """S_t = diag(decay_t) S_{t-1} + k_t v_tᵀ, o_t = S_tᵀ q_t; decay broadcasts over the state."""
    state, out = _state(k, v), []
    for q_t, k_t, v_t, decay_t in zip(_steps(q), _steps(k), _steps(v), _steps(decay)):
        state = state * decay_t + _outer(k_t, v_t)
        out.append(_read(q_t, state))
    return torch.stack(out, dim=2)


def _gla(given: Leaves) -> torch.Tensor:
    return _gated(given["q"], given["k"], given["v"], given["g"].exp()[..., :, None])


def _gated_delta_rule(given: Leaves) -> torch.Tensor:
    """S_t = α_t S_{t-1} + β_t k_t (v_t − α_t S_{t-1}ᵀ k_t)ᵀ."""
    state, out = _state(given["k"], given["v"]), []
    steps = zip(*(_steps(given[name]) for name in ("q", "k", "v", "g", "beta")))
    for q_t, k_t, v_t, g_t, beta_t in steps:
        state = state * g_t.exp()[..., None, None]
        state = state + _outer(k_t, (v_t - _read(k_t, state)) * beta_t[..., None])
        out.append(_read(q_t, state))
    return torch.stack(out, dim=2)


def _gsa(given: Leaves) -> torch.Tensor:
    """Two gated passes with a softmax over the slots in between."""
    decay = given["g"].exp()
    slots = _gated(given["q"], given["k"], given["s"], decay[..., None, :]).softmax(-1)
    return _gated(slots, given["s"], given["v"], decay[..., :, None])


def _rwkv7(given: Leaves) -> torch.Tensor:
    """S_t = S_{t-1} diag(exp w_t) + (S_{t-1} a_t) b_tᵀ + v_t k_tᵀ, kept transposed: keys first."""
    state, out = _state(given["k"], given["v"]), []
    steps = zip(*(_steps(given[name]) for name in ("q", "w", "k", "v", "a", "b")))
    for q_t, w_t, k_t, v_t, a_t, b_t in steps:
        state = state * w_t.exp()[..., :, None] + _outer(b_t, _read(a_t, state)) + _outer(k_t, v_t)
        out.append(_read(q_t, state))
    return torch.stack(out, dim=2)
