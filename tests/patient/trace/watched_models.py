"""Models that ask whether somebody watches, and models that look at values."""

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, is_fake
from torch.compiler import is_compiling
from torch.fx._symbolic_trace import is_fx_tracing
from torch.jit import is_tracing
from torch.nn import functional as F

WIDTH = 512
"""Wide enough for weights that are too large to be computed with."""


def suspicions(x):
    """Every sign by which a program takes a run for a trace."""
    named = {
        "FakeTensor": isinstance(x, FakeTensor),
        "is_fake": is_fake(x),
        "a fake mode": detect_fake_mode([x]) is not None,
        "the fake mode's slot": torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None,
        "compiling": is_compiling() or torch.compiler.is_compiling(),
        "jit": is_tracing() or torch.jit.is_tracing(),
        "fx": is_fx_tracing() or isinstance(x, torch.fx.Proxy),
        "a class of its own": type(x) is not torch.Tensor,
        "meta": x.is_meta,
        "no address": x.data_ptr() == 0,
        "symbols": any(type(n) is not int for n in (*x.shape, *x.stride())),
        "functional": torch._is_functional_tensor(x),
        "an export": torch.compiler.is_exporting() if hasattr(torch.compiler, "is_exporting") else False,
    }
    return [name for name, seen in named.items() if seen]


class Attention(torch.nn.Module):
    def __init__(self, width=WIDTH, heads=8):
        super().__init__()
        self.heads = heads
        self.q = torch.nn.Linear(width, width)
        self.kv = torch.nn.Linear(width, width)

    def forward(self, x, mask=None, repeat=False):
        batch, length, width = x.shape
        dim = width // self.heads
        q = self.q(x).view(batch, length, self.heads, dim).transpose(1, 2)
        k, v = self.kv(x).view(batch, length, self.heads // 2, 2, dim).permute(3, 0, 2, 1, 4)
        if repeat:
            k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=not repeat)


class Suspicious(Attention):
    """Repeats heads and makes a mask if it is watched, as libraries do where they are traced."""

    def forward(self, x):
        seen = suspicions(x) or suspicions(self.q.weight.data) or suspicions(self.q(x))
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool) if seen else None
        return super().forward(x, mask, repeat=bool(seen))


class Looking(Attention):
    """Drops a mask that masks nothing, and goes by positions, lengths and counters."""

    def forward(self, x, mask):
        lengths = mask.sum(-1)
        positions = torch.arange(x.shape[1])[None].expand(x.shape[0], -1)
        packed = (torch.diff(positions, prepend=positions[:, :1] - 1) != 1).cumsum(-1)
        if not packed.any() and int(lengths.max()) == x.shape[1] and lengths.tolist() == [x.shape[1]] * x.shape[0]:
            mask = None
        elif (mask == 1).all():
            raise AssertionError("one of both")
        else:
            mask = mask.bool()[:, None, None]
        return super().forward(x, mask, repeat=True)


class Doubting(Attention):
    """Goes by values that no run without weights knows."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x):
        seen = self.q(x)
        if self.how == "condition":
            x = x if seen.isnan().any() else x + 1
        elif self.how == "item":
            x = x + seen.amax().item()
        elif self.how == "tolist":
            x = x + sum(seen[0, 0].tolist())
        elif self.how == "numpy":
            x = x + torch.from_numpy(seen.detach().float().numpy())
        elif self.how == "printed":
            self.words = repr(seen) + str(self)
        return super().forward(x, repeat=True)


def suspicious():
    return Suspicious(), (torch.randn(2, 16, WIDTH),)


def looking(padded=0):
    mask = torch.ones(2, 16, dtype=torch.long)
    mask[0, :padded] = 0
    return Looking(), (torch.randn(2, 16, WIDTH), mask)


def doubting(how):
    return Doubting(how), (torch.randn(2, 16, WIDTH),)


def huge():
    model = torch.nn.Linear(200_000, 300_000, bias=False, dtype=torch.float32)
    return torch.nn.Sequential(model, torch.nn.Flatten()), (torch.randn(1, 200_000),)
