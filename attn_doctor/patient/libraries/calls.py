"""Operands for the sample calls of attention functions, on the GPU. Imports torch."""

from __future__ import annotations

from typing import List

import torch

BATCH, LENGTH, HEADS, HEAD_DIM = 1, 64, 2, 64


def qkv(dtype: str) -> List[torch.Tensor]:
    """q, k and v (batch, length, heads, head_dim), each a leaf that requires its gradient."""
    shape = (BATCH, LENGTH, HEADS, HEAD_DIM)
    return [torch.randn(shape, dtype=getattr(torch, dtype), device="cuda", requires_grad=True) for _ in "qkv"]
