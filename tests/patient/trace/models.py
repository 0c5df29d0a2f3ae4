"""Small models with the dtype troubles of real ones, written for these tests."""

import torch
from torch import nn
from torch.nn import functional as F


class NormalisedAttention(nn.Module):
    """l2-normalised q and k, a float32 scale for each head, flash_attn: the shape of many image generators."""

    def __init__(self, cast, width=64, heads=4):
        super().__init__()
        self.heads, self.cast = heads, cast
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.zeros(1, 1, heads, 1))

    def forward(self, x):
        from flash_attn import flash_attn_func

        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).unbind(2)
        scale = self.scale.clamp_max(4.6).exp()
        if "scale" in self.cast:
            scale = scale.to(v.dtype)
        q = F.normalize(q, dim=-1)  # normalises q
        k = F.normalize(k, dim=-1)  # normalises k
        if "norm" in self.cast:
            q, k = q.to(v.dtype), k.to(v.dtype)
        q = q * scale  # scales q
        return self.out(flash_attn_func(q, k, v).reshape(batch, length, width))


def normalised(cast="", layers=3):
    model = nn.Sequential(*[NormalisedAttention(cast) for _ in range(layers)])
    return model, (torch.randn(2, 8, 64),)


class Attention(nn.Module):
    """q, k, v from one projection; `between` changes them, `kernel` takes them as (batch, heads, length, dim)."""

    def __init__(self, between, kernel=None, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.gain = nn.Parameter(torch.ones(width // heads))
        self.register_buffer("table", torch.ones(width // heads))
        self.between, self.kernel = between, kernel or F.scaled_dot_product_attention

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return self.kernel(*self.between(self, q, k, v))


def _model(between, kernel=None, dtype=None):
    model = Attention(between, kernel)
    x = torch.randn(2, 8, 32)
    if dtype is not None:
        model.qkv.to(dtype)
        x = x.to(dtype)
    return model, (x,)


def _strict(q, k, v):
    """A kernel that says nothing of its dtypes and takes what it gets."""
    return _Kernel.apply(q, k, v)


class _Kernel(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return torch.empty_like(v)

    @staticmethod
    def backward(ctx, grad):
        return tuple(torch.zeros_like(t) for t in ctx.saved_tensors)


def plain():
    return _model(lambda m, q, k, v: (q, k, v))


def gained(half="bfloat16"):
    return _model(lambda m, q, k, v: (q * m.gain, k, v), dtype=getattr(torch, half))  # multiplies q


def buffered():
    def between(m, q, k, v):
        q = torch.cat([q[..., :4] * m.table[:4], q[..., 4:]], -1)  # multiplies a part of q
        return q, k, v

    return _model(between, dtype=torch.float16)


def cast_by_hand():
    return _model(lambda m, q, k, v: (q.float(), k, v), _strict, torch.bfloat16)


def asked_for():
    return _model(lambda m, q, k, v: (q, k.softmax(-1, dtype=torch.float32), v), _strict, torch.bfloat16)


def promoted_by_list():
    return _model(lambda m, q, k, v: (q, k.addcmul(k * 0.5, m.gain), v), _strict)


def zero_dimensional():
    return _model(lambda m, q, k, v: (q * torch.tensor(2.0), k * 0.5, v), dtype=torch.bfloat16)


def cached():
    cache = torch.zeros(2, 4, 8, 8)

    def between(m, q, k, v):
        filled = cache.clone().to(q.device)
        filled.copy_(k)
        return q, filled, v

    return _model(between, dtype=torch.bfloat16)


def masked(kind="float32"):
    def between(m, q, k, v):
        mask = torch.zeros(8, 8, dtype=getattr(torch, kind), device=q.device)
        return q, k, v, mask

    return _model(between, dtype=torch.float16)


def single():
    """All float32, into a kernel that wants halves."""

    def kernel(q, k, v):
        from flash_attn import flash_attn_func

        return flash_attn_func(*(t.transpose(1, 2) for t in (q, k, v)))

    return _model(lambda m, q, k, v: (q, k, v), kernel)


def asserting():
    def kernel(q, k, v):
        assert q.dtype == k.dtype == v.dtype
        return q

    return _model(lambda m, q, k, v: (q, k * m.gain, v), kernel, torch.float16)


def multi_head():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=False)[0]

    return Model(), (torch.randn(2, 4, 16),)


def packed():
    from flash_attn import flash_attn_qkvpacked_func

    projection = nn.Linear(32, 96)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = projection

        def forward(self, x):
            return flash_attn_qkvpacked_func(self.qkv(x).view(2, 8, 3, 4, 8))

    return Model(), (torch.randn(2, 8, 32),)


def variable_length():
    from flash_attn import flash_attn_varlen_func

    starts = torch.tensor([0, 3, 8], dtype=torch.int32)

    def call():
        q, k, v = (torch.randn(8, 4, 8, dtype=torch.float16) for _ in range(3))
        return flash_attn_varlen_func(q, k, v, starts, starts, 5, 5, causal=True)

    return call


def with_cache(cache="float32"):
    from flash_attn import flash_attn_with_kvcache

    def call():
        q = torch.randn(2, 1, 4, 8, dtype=torch.float16)
        k, v = (torch.randn(2, 16, 4, 8, dtype=getattr(torch, cache)) for _ in range(2))
        return flash_attn_with_kvcache(q, k, v)

    return call


def xformers_attention():
    def kernel(q, k, v):
        from xformers.ops import memory_efficient_attention

        return memory_efficient_attention(*(t.transpose(1, 2) for t in (q, k, v)))

    return _model(lambda m, q, k, v: (q * m.gain, k, v), kernel, torch.float16)


def flex():
    from torch.nn.attention.flex_attention import flex_attention

    return _model(lambda m, q, k, v: (q * m.gain, k, v), flex_attention, torch.float16)


def flex_with_a_mask():
    """As transformers calls it: a block mask whose device torch asks of its own tensors, and the log-sum-exp."""
    from torch.nn.attention import flex_attention as flex

    def kernel(q, k, v):
        length = q.shape[-2]
        mask = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device=q.device)
        if hasattr(flex, "AuxRequest"):
            out, aux = flex.flex_attention(q, k, v, block_mask=mask, return_aux=flex.AuxRequest(lse=True))
            lse = aux.lse
        else:
            out, lse = flex.flex_attention(q, k, v, block_mask=mask, return_lse=True)
        assert (lse.shape, lse.dtype) == (q.shape[:-1], torch.float32)
        return out

    return _model(lambda m, q, k, v: (q, k, v), kernel, torch.float16)


def custom_op():
    return _model(lambda m, q, k, v: (q * m.gain, k, v), torch.ops.attn_doctor_tests.attention, torch.float16)


if not hasattr(torch.ops.attn_doctor_tests, "attention"):  # this file is loaded anew by each trace
    library = torch.library.Library("attn_doctor_tests", "FRAGMENT")
    library.define("attention(Tensor q, Tensor k, Tensor v) -> Tensor")
    library.impl("attention", lambda q, k, v: torch.zeros_like(v), "CompositeExplicitAutograd")
    torch.__attn_doctor_tests_library = library


def without_attention():
    return nn.Linear(4, 4), (torch.randn(2, 4),)


# What goes wrong before or beside any attention.


def nothing():
    return None


def wrapping():
    def model(x):
        try:
            raise OSError("the disk is gone")
        except OSError as error:
            raise ImportError("the weights") from error

    return model, (torch.randn(2, 4),)


def shapes_that_differ():
    return (lambda x, y: x * y), (torch.randn(4, 3), torch.randn(4, 5, dtype=torch.float16))


def scaled_by_a_new_tensor():
    return _model(lambda m, q, k, v: (q * torch.tensor([2.0]), k, v), dtype=torch.float16)


def rms_normed():
    return _model(lambda m, q, k, v: (F.rms_norm(q, q.shape[-1:]), k, v))


def layer_normed():
    return _model(lambda m, q, k, v: (F.layer_norm(q, q.shape[-1:]), k, v))


def without_inputs():
    return nn.Linear(4, 4)


def raising():
    raise ValueError("the data set is gone")


def exiting():
    raise SystemExit(3)


class Printing(nn.Module):
    def forward(self, x):
        print("a model that talks")
        F.scaled_dot_product_attention(x, x, x)
        raise SystemExit("that is enough")


def printing_and_exiting():
    return Printing(), (torch.randn(1, 2, 4, 8),)


class Graphed(nn.Module):
    def forward(self, x):
        F.scaled_dot_product_attention(x, x, x)
        return torch.cuda.CUDAGraph()


def needing_a_gpu():
    return Graphed(), (torch.randn(1, 2, 4, 8),)


def mismatched_linear():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.lower = nn.Linear(8, 8).half()

        def forward(self, x):
            return self.lower(x)  # float32 into float16

    return Model(), (torch.randn(4, 8),)


def meta_inputs():
    return nn.Linear(8, 8), (torch.randn(4, 8, device="meta"),)


def frozen():
    model, inputs = plain()
    return model.requires_grad_(False), inputs


def query_norm():
    norm = nn.LayerNorm(8)

    def between(m, q, k, v):
        return m.norm(q), k, v

    model, inputs = _model(between, _strict)
    model.norm = norm
    return model, inputs
