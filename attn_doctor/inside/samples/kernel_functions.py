"""Attention functions called directly: (1, 64, 2, 64) query, key and value on the GPU."""

from __future__ import annotations

from typing import Any, Callable

import torch

BATCH, LENGTH, HEADS, HEAD_DIM = 1, 64, 2, 64


def flash_attn_func(dtype: str) -> Callable[[], Any]:
    from flash_attn import flash_attn_func as function

    q, k, v = (_tensor(dtype) for _ in "qkv")
    return lambda: function(q, k, v, causal=True)


def flash_attn_varlen_func(dtype: str) -> Callable[[], Any]:
    """Two sequences of 32 packed into one."""
    from flash_attn import flash_attn_varlen_func as function

    q, k, v = (_tensor(dtype).detach().flatten(0, 1).requires_grad_() for _ in "qkv")
    half = LENGTH // 2
    starts = torch.tensor([0, half, LENGTH], dtype=torch.int32, device="cuda")
    return lambda: function(q, k, v, starts, starts, half, half, causal=True)


def flash_attn_3_func(dtype: str) -> Callable[[], Any]:
    from flash_attn_interface import flash_attn_func as function

    q, k, v = (_tensor(dtype) for _ in "qkv")
    return lambda: function(q, k, v, causal=True)


def flash_attn_4_func(dtype: str) -> Callable[[], Any]:
    from flash_attn.cute import flash_attn_func as function

    q, k, v = (_tensor(dtype) for _ in "qkv")
    return lambda: function(q, k, v, causal=True)


def memory_efficient_attention(dtype: str) -> Callable[[], Any]:
    from xformers.ops import memory_efficient_attention as function

    q, k, v = (_tensor(dtype) for _ in "qkv")
    return lambda: function(q, k, v)


def _tensor(dtype: str) -> torch.Tensor:
    shape = (BATCH, LENGTH, HEADS, HEAD_DIM)
    return torch.randn(shape, dtype=getattr(torch, dtype), device="cuda", requires_grad=True)
