"""Functions that hold q, k and v and in which something goes wrong: over dtypes, or not."""

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, rest, width=32, heads=4):
        super().__init__()
        self.rest, self.heads = rest, heads
        self.qkv = nn.Linear(width, 3 * width)
        self.gain = nn.Parameter(torch.ones(width // heads))

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return self.rest(self, q, k, v)


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def wrong_view_after(m, q, k, v):
    q = q * m.gain
    out = sdpa(q.to(v.dtype), k, v)
    return out.view(3, 5)


def wrong_view_before(m, q, k, v):
    q = q * m.gain
    return sdpa(q, k.view(1, 1, 7), v)


def wrong_index(m, q, k, v):
    q = q * m.gain
    return sdpa(q[:, :, [99]], k, v)


def wrong_length(m, q, k, v):
    q = q * m.gain
    assert q.shape[-1] == 17
    return sdpa(q, k, v)


def out_of_memory(m, q, k, v):
    q = q * m.gain
    raise torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79 GiB"
    )


def speaks_of_dtypes_in_vain(m, q, k, v):
    q = q * m.gain
    raise ValueError("dtype of the table is not known")


def wants_one_dtype(m, q, k, v):
    q = q * m.gain
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"one dtype is wanted, not {q.dtype} and {k.dtype}")
    return sdpa(q, k, v)


def asserts_one_dtype(m, q, k, v):
    q = q * m.gain
    assert q.dtype == k.dtype == v.dtype
    return sdpa(q, k, v)


def wants_one_dtype_and_a_length(m, q, k, v):
    q = q * m.gain
    if q.dtype != k.dtype or q.shape[-2] != 9:
        raise TypeError("one dtype and nine tokens are wanted")
    return sdpa(q, k, v)


def wants_halves(m, q, k, v):
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"only fp16 and bf16 here, not {q.dtype}")
    return sdpa(q, k, v)


def shapes_that_differ(m, q, k, v):
    return sdpa(q * m.gain, k[..., :4], v)


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return torch.empty_like(v)

    @staticmethod
    def backward(ctx, grad):
        _, k, v = ctx.saved_tensors
        return grad.view(3, 5), torch.zeros_like(k), torch.zeros_like(v)


def wrong_backward(m, q, k, v):
    return Own.apply(q * m.gain, k, v)


def mask_on_the_cpu(m, q, k, v):
    q, k, v = q.cuda(), k.cuda(), v.cuda()
    return F.scaled_dot_product_attention(q, k, v, torch.zeros(8, 8, dtype=q.dtype))


def build(name, half="bfloat16"):
    model = Attention(globals()[name])
    model.qkv.to(getattr(torch, half))
    return model, (torch.randn(2, 8, 32, dtype=getattr(torch, half)),)
