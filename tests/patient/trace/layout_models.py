"""Models that take an attention output by its strides, as real ones do: right ones, and ones that a GPU refuses."""

import importlib

import torch
from torch import nn

B, L, HEADS, DIM = 2, 16, 4, 32


class Projected(nn.Module):
    """One projection for q, k and v; the output is looked at as (batch, length, channels)."""

    def __init__(self, call, normed=False, heads_first=False, view=True):
        super().__init__()
        self.project = nn.Linear(HEADS * DIM, 3 * HEADS * DIM)
        self.scale = nn.Parameter(torch.ones(1, 1, HEADS, 1))
        self.call, self.normed, self.heads_first, self.view = call, normed, heads_first, view

    def forward(self, x):
        batch, length, channels = x.shape
        packed = self.project(x).view(batch, length, 3, HEADS, DIM)
        q, k, v = packed.unbind(dim=2)
        if self.normed:
            q = nn.functional.normalize(q, dim=-1).mul(self.scale).to(packed.dtype)
            k = nn.functional.normalize(k, dim=-1).to(packed.dtype)
        if self.heads_first:
            # What rotary code that wants (batch, heads, length, dim) leaves behind.
            q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
        out = self.call(q, k, v)
        return out.view(batch, length, channels) if self.view else out.reshape(batch, length, channels)


def _library(name):
    if name == "flash_attn":
        return importlib.import_module("flash_attn").flash_attn_func
    if name == "flash_attn_3":
        return importlib.import_module("flash_attn_interface").flash_attn_func
    if name == "flash_attn_4":
        function = importlib.import_module("flash_attn.cute").flash_attn_func
        return lambda q, k, v: function(q, k, v)[0]
    return importlib.import_module("xformers.ops").memory_efficient_attention


def projected(library, **kwargs):
    model = Projected(_library(library), **kwargs)
    return model, (torch.randn(B, L, HEADS * DIM),)


class WithCache(nn.Module):
    """One decoding step, its output looked at as (batch, length, channels)."""

    def __init__(self, heads_first):
        super().__init__()
        self.heads_first = heads_first

    def forward(self, q):
        if self.heads_first:
            q = q.transpose(1, 2).contiguous().transpose(1, 2)
        cache = torch.zeros(B, 64, HEADS, DIM, dtype=q.dtype)
        lengths = torch.full((B,), 8, dtype=torch.int32)
        out = importlib.import_module("flash_attn").flash_attn_with_kvcache(q, cache, cache, cache_seqlens=lengths)
        return out.view(*q.shape[:2], -1)


def with_cache(heads_first=False, length=4):
    return WithCache(heads_first), (torch.randn(B, length, HEADS, DIM, dtype=torch.float16),)


def documents():
    """xformers' masks by name, made and taken apart as DINOv2's blocks do."""
    ops = importlib.import_module("xformers.ops")

    def forward(x, y):
        bias, packed = ops.fmha.BlockDiagonalMask.from_tensor_list([x, y])
        heads = packed.reshape(1, -1, HEADS, DIM)
        out = ops.memory_efficient_attention(heads, heads, heads, attn_bias=bias).reshape(1, -1, HEADS * DIM)
        first, second = bias.split(out)
        return first.view(x.shape).sum() + second.view(y.shape).sum()

    given = (torch.randn(n, length, HEADS * DIM, dtype=torch.bfloat16) for n, length in ((2, 5), (3, 7)))
    return forward, tuple(given)
