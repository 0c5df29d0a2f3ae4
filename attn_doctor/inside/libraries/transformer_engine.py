"""Transformer Engine: what its DotProductAttention gives back.

Source: NVIDIA/TransformerEngine, transformer_engine/pytorch/attention/dot_product_attention (2026-08).
"""

from __future__ import annotations

from typing import Any


def answer(out: Any) -> Any:
    """(…, heads, head_dim) as (…, heads * head_dim), in the order of dimensions of the query."""
    return out.contiguous().flatten(-2)
