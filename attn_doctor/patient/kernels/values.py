"""The numbers of a trial: Gaussians, and what trained models have instead. Imports torch."""

from __future__ import annotations

import math
from typing import Callable, Dict, Optional, Tuple

import torch

from .operands import Shapes
from .situations import Situation

_LARGE = 12.0
"""Scores are q k / sqrt(head_dim): of this standard deviation then, so that the largest is about 50."""


def drawn(shapes: Shapes, situation: Situation, generator: torch.Generator, device: str) -> Dict[str, torch.Tensor]:
    """q, k and v in float32, contiguous.

    `device` by name: where a GPU is simulated the generator is one of the CPU.
    """

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, device=device)

    found = {name: normal(*one.shape) for name, one in (("q", shapes.q), ("k", shapes.k), ("v", shapes.v))}
    if situation.values == "large":
        found["q"] *= _LARGE
    elif situation.values == "one-hot":
        found["q"] = _pointing_at(found["k"], found["q"])
    elif situation.values == "tied":
        found["k"] = found["k"][:, :, :1].expand_as(found["k"]).clone()
    elif situation.values == "spread":
        _spread(found, normal)
    if situation.sink:
        # The sink is a key that no query points at and that holds nothing; its score comes from the mask.
        found["k"][:, :, -1] = 0
        found["v"][:, :, -1] = 0
    return found


def _pointing_at(k: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Queries that point at the key of their own position, so far that its weight rounds to 1 in every dtype."""
    heads, length = q.shape[1], q.shape[2]
    own = k.repeat_interleave(heads // k.shape[1], dim=1)
    return 3.0 * math.sqrt(k.shape[-1]) * own[:, :, torch.arange(length, device=q.device) % own.shape[2]]


def _spread(found: Dict[str, torch.Tensor], draw: Callable[..., torch.Tensor]) -> None:
    """Channels of different sizes, two of them far larger; a first key that attracts every query and holds little.

    As seen in trained transformers: outlier channels (https://arxiv.org/abs/2208.07339), attention sinks with nearly
    empty values (https://arxiv.org/abs/2309.17453).
    """
    dim = found["q"].shape[-1]
    size = torch.exp(0.5 * draw(dim))
    size[:2] *= 4.0
    size /= size.square().mean().sqrt()
    found["q"] *= size
    found["k"] *= size
    found["v"] *= torch.exp(0.5 * draw(found["v"].shape[-1]))
    towards = found["q"].mean(dim=2, keepdim=True)[:, : found["k"].shape[1]]
    found["q"] += 2.0 * towards.sign().repeat_interleave(found["q"].shape[1] // found["k"].shape[1], dim=1)
    found["k"][:, :, :1] = 2.0 * towards.sign()
    found["v"][:, :, :1] *= 0.05


def mask(shapes: Shapes, situation: Situation, generator: torch.Generator, device: str) -> torch.Tensor:
    """The mask of the call, as a caller would pass it."""
    described = shapes.mask
    assert described is not None
    rows, columns = described.shape[-2:]
    if described.kind != "bool":
        # Finite, and exactly representable in bfloat16: a kernel that misreads the bytes of a float32 mask then gives a
        # finite error, where other masks give NaN.
        bias = torch.randn(described.shape, generator=generator, device=device).to(torch.bfloat16)
        found = bias.to(getattr(torch, described.kind))
        if situation.sink:
            found[..., :-1] = 0
    elif rows * columns > 1 << 30:
        return (
            torch.empty(described.shape, dtype=torch.uint8, device=device)
            .random_(0, 2, generator=generator)
            .view(torch.bool)
        )
    else:
        found = torch.rand(described.shape, generator=generator, device=device) < 0.75
        # Each query sees one key at least: rows that see none have a situation of their own.
        found = (
            found
            | torch.eye(rows, columns, dtype=torch.bool, device=device)
            | (torch.arange(columns, device=device) == 0) & (torch.arange(rows, device=device)[:, None] >= columns)
        )
        if situation.dead_rows:
            found[..., torch.arange(3, rows, max(rows // 5, 1), device=device), :] = False
    return found if described.stride is None else laid_out(found, described.stride)


def laid_out(
    numbers: torch.Tensor, strides: Tuple[int, ...], storage: Optional[torch.Tensor] = None, offset: int = 0
) -> torch.Tensor:
    """The numbers with these strides, in `storage` if given. A stride of 0 keeps the first of its numbers."""
    if storage is None:
        room = 1 + sum((size - 1) * step for size, step in zip(numbers.shape, strides))
        # Room behind the last element, as a larger tensor around it would have.
        storage = torch.zeros(room + 64, dtype=numbers.dtype, device=numbers.device)
    whole = target = storage.as_strided(tuple(numbers.shape), strides, offset)
    for dim, step in enumerate(strides):
        if step == 0:
            numbers, target = numbers.narrow(dim, 0, 1), target.narrow(dim, 0, 1)
    target.copy_(numbers)
    return whole
