"""Two streams whose q, k and v are laid side by side before one attention call, and FlexAttention without gradients."""

import torch
from torch import nn


class Streams(nn.Module):
    """`widen(model, x)` is what becomes of the second stream's q and k; `join` lays the streams side by side."""

    def __init__(self, widen, join, second=torch.float16, width=32, heads=4):
        super().__init__()
        self.heads, self.widen, self.join = heads, widen, join
        self.first = nn.Linear(width, 3 * width).half()
        self.second = nn.Linear(width, 3 * width).to(second)
        self.gain = nn.Parameter(torch.ones(width // heads))
        self.tokens = nn.Parameter(torch.zeros(2, 8, heads, width // heads))

    def forward(self, x, y):
        from flash_attn import flash_attn_func

        q, k, v = self.first(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q2, k2, v2 = self.second(y.to(self.second.weight.dtype)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q = self.join(q, self.widen(self, q2))  # joins q
        k = self.join(k, self.widen(self, k2))
        return flash_attn_func(q, k, self.join(v, v2.to(v.dtype)))


def _model(widen, join, **more):
    return Streams(widen, join, **more), (torch.randn(2, 8, 32).half(), torch.randn(2, 8, 32).half())


def _gained(model, x):
    return x * model.gain  # widens the second stream


def _cat(one, other):
    return torch.cat((one, other), dim=1)  # lays side by side


def concatenated():
    return _model(_gained, _cat)


def stacked():
    return _model(_gained, lambda one, other: torch.stack((one, other), dim=2).flatten(1, 2))


def chosen():
    return _model(_gained, lambda one, other: torch.where(torch.ones(8, 1, 1, dtype=torch.bool), one, other))


def wide_all_along():
    """The second stream was never in half precision: what joins it is what promotes."""
    return _model(lambda model, x: x, _cat, second=torch.float32)


def with_tokens():
    return _model(lambda model, x: model.tokens, _cat)


class Flexible(nn.Module):
    def __init__(self, cast, widen="q k", width=32, heads=2):
        super().__init__()
        self.cast, self.widen, self.heads = cast, widen, heads
        self.qkv = nn.Linear(width, 3 * width)
        self.gain = nn.Parameter(torch.ones(width // heads))
        self.requires_grad_(False)

    def forward(self, x):
        from torch.nn.attention.flex_attention import flex_attention

        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if "q" in self.widen:
            q = q * self.gain  # widens q
        if "k" in self.widen:
            k = k * self.gain
        if self.cast:
            q, k = q.to(v.dtype), k.to(v.dtype)
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score * 2)


def flexible(cast=False, half=False, widen="q k"):
    model = Flexible(cast, widen)
    if half:
        model.qkv.half()
    return model, (torch.randn(2, 16, 32, dtype=torch.float16 if half else None),)


class Cached(nn.Module):
    """Generates with a cache that it allocates in float32, whatever it computes in."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width).half()

    def forward(self, x):
        from flash_attn import flash_attn_func

        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2)
        cache = torch.zeros(2, *k.shape)  # allocates the cache
        cache[0], cache[1] = k, v
        return flash_attn_func(q, *cache.unbind(0))


def cached():
    return Cached(), (torch.randn(2, 8, 32).half(),)


class Gathered(nn.Module):
    """Streams that are written, one after the other, into a buffer for each of q, k and v."""

    def __init__(self, alone="q k v", kernel="flash_attn", width=32, heads=4):
        super().__init__()
        self.heads, self.alone, self.kernel = heads, alone.split(), kernel
        self.qkv = nn.Linear(width, 3 * width).half()

    def gather(self, name, parts):
        b, _, h, d = parts[0].shape
        shape = (b, sum(one.shape[1] for one in parts), h, d)
        buffer = torch.empty(shape) if name in self.alone else parts[0].new_empty(shape)  # allocates the buffer
        at = 0
        for one in parts:
            buffer[:, at : at + one.shape[1]] = one
            at += one.shape[1]
        return buffer

    def forward(self, *streams):
        parts = [self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(2) for x in streams]
        q, k, v = (self.gather(name, [one[i] for one in parts]) for i, name in enumerate("qkv"))
        if self.kernel == "sdpa":
            return torch.nn.functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)))
        from flash_attn import flash_attn_func

        return flash_attn_func(q, k, v)


def gathered(alone="q k v", kernel="flash_attn"):
    return Gathered(alone, kernel), tuple(torch.randn(2, n, 32).half() for n in (5, 8))
