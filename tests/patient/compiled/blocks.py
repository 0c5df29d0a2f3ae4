"""Written-out attention: sound, and with the K that Inductor of torch 2.13 takes for another one."""

import math

import torch
from torch import nn
from torch.nn import functional


class Written(nn.Module):
    num_heads = 8

    def __init__(self, permuted):
        super().__init__()
        self.qkv, self.out, self.permuted = nn.Linear(64, 192), nn.Linear(64, 64), permuted

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 8, 8).unbind(2)
        q, v = q.permute(0, 2, 1, 3), v.permute(0, 2, 1, 3)
        k = k.permute(0, 2, 3, 1) if self.permuted else k.permute(0, 2, 1, 3).transpose(-2, -1)
        weights = (torch.matmul(q, k) * (1 / math.sqrt(8))).softmax(-1)
        return self.out(torch.matmul(weights, v).transpose(1, 2).reshape(batch, length, 64))


class Called(nn.Module):
    num_heads = 4

    def __init__(self, broken):
        super().__init__()
        self.qkv, self.out, self.broken = nn.Linear(64, 192), nn.Linear(64, 64), broken

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, 16).permute(2, 0, 3, 1, 4)
        if self.broken:
            torch._dynamo.graph_break()
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, 64))


def _large(module):
    torch.manual_seed(0)
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0, 0.4)
    return module, {"x": torch.randn(1, 8, 64)}


def written(permuted=False):
    return _large(Written(permuted))


def called(broken=False):
    return _large(Called(broken))
