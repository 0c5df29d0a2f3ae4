"""Models that rotate q and k by complex numbers, plain and checkpointed, each with the twin that casts back."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

HEADS, WIDTH, LENGTH = 4, 32, 8
DIM = WIDTH // HEADS


def table():
    angles = torch.outer(torch.arange(LENGTH).float(), 1.0 / 100 ** (torch.arange(DIM // 2) / (DIM // 2)))
    return torch.polar(torch.ones_like(angles), angles)


def as_complex(t, cis):
    pairs = t.float().reshape(*t.shape[:-1], -1, 2)  # widens
    turned = torch.view_as_complex(pairs) * cis
    return torch.view_as_real(turned).flatten(3)  # real again


def by_bits(t, cis):
    pairs = t.float().view(torch.complex64)  # widens by bits
    return (pairs * cis).view(torch.float32)  # real again by bits


def by_parts(t, cis):
    half = torch.complex(t[..., ::2].float(), t[..., 1::2].float())  # widens parts
    turned = half * cis
    return torch.stack([turned.real, turned.imag], -1).flatten(3)


def by_euler(t, cis):
    pairs = torch.view_as_complex(t.reshape(*t.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * cis).flatten(3)  # complex32 times complex64


ROTATIONS = {"as_complex": as_complex, "by_bits": by_bits, "by_parts": by_parts, "by_euler": by_euler}


class Attention(nn.Module):
    def __init__(self, rotation, cast_back, checkpointed):
        super().__init__()
        self.rotation, self.cast_back, self.checkpointed = ROTATIONS[rotation], cast_back, checkpointed
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.register_buffer("cis", table())

    def attend(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, HEADS, DIM).permute(2, 0, 3, 1, 4).unbind(0)
        turned = self.rotation(q, self.cis)
        if self.cast_back:
            turned = turned.type_as(q)
        return F.scaled_dot_product_attention(turned, k, v)

    def forward(self, x):
        if self.checkpointed is None:
            return self.attend(x)
        return checkpoint(self.attend, x, use_reentrant=self.checkpointed)


def rotated(rotation="as_complex", half="bfloat16", cast_back=False, checkpointed=None):
    model = Attention(rotation, cast_back, checkpointed)
    if half != "float32":
        model.qkv.to(getattr(torch, half))
    x = torch.randn(2, LENGTH, WIDTH, dtype=getattr(torch, half), requires_grad=True)
    return model, (x,)
