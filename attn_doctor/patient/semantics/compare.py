"""How far outputs differ: in standard deviations of the outputs, so that one limit serves every model."""

from __future__ import annotations

import math

import torch

REACHES = 1e-2
"""A changed token that moves another token's output by so much reaches it."""
ROUNDING = 1e-3
"""Differences below are rounding, also between calls of different shapes; between both nothing is said."""


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference, in standard deviations of `one`; infinite where one is finite and the other is not."""
    if one.numel() == 0:
        return 0.0
    one, other = one.detach().double(), other.detach().double()
    finite = one.isfinite()
    if bool((finite != other.isfinite()).any()):
        return math.inf
    if not bool(finite.any()):
        return math.nan
    spread = max(float(one[finite].std()) if one[finite].numel() > 1 else 1.0, 1e-12)
    return float((one[finite] - other[finite]).abs().max()) / spread


def shown(value: float) -> str:
    """`3.8 standard deviations`."""
    if math.isinf(value):
        return "NaN or infinity where the other has numbers"
    return "{:.2g} standard deviations".format(value)
