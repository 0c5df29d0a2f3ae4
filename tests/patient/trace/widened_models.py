"""Attention in which q, k and v are all float32 at SDPA: by accident, by intention, and from the beginning."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """`how` widens q, k and v, or not."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.qkv = nn.Linear(32, 96)
        self.magnitude = nn.Parameter(torch.ones(96))
        self.gate = nn.Parameter(torch.ones(16))

    def forward(self, x):
        b, n, _ = x.shape
        joined = self.qkv(x)
        if self.how == "magnitude":
            joined = joined * self.magnitude
        q, k, v = joined.view(b, n, 3, 2, 16).permute(2, 0, 3, 1, 4)
        if self.how == "written":
            q, k, v = q.float(), k.float(), v.float()
        if self.how == "gate":
            q, k = q.float(), k.float()
            v = v * self.gate
        return F.scaled_dot_product_attention(q, k, v).sum()


def _half(how):
    model = Attention(how).to(torch.bfloat16)
    for parameter in (model.magnitude, model.gate):
        parameter.data = parameter.data.float()
    return model, (torch.randn(2, 8, 32, dtype=torch.bfloat16),)


def magnitude():
    return _half("magnitude")


def gate():
    return _half("gate")


def written():
    return _half("written")


def float32():
    return Attention("magnitude"), (torch.randn(2, 8, 32),)
