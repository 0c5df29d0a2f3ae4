"""Calls of attention libraries, and in which shape, strides and dtype they answer: one table for kernels and stand-ins.

python tests/patient/trace/layout_calls.py ANSWERS.json [LIBRARY...]      on a GPU, with the real libraries
"""

import importlib
import itertools
import json
import sys

import torch

LAYOUTS = ("plain", "of a packed projection", "heads first", "one of a wider head", "heads first, one sequence")


def operand(layout, length=32, heads=4, dim=64, dtype=torch.bfloat16, device="cpu", batch=2, grad=False):
    """(batch, length, heads, dim) in one of the layouts that models make."""
    given = {"dtype": dtype, "device": device}
    if layout == "of a packed projection":
        made = torch.zeros(batch, length, 3, heads, dim, **given).unbind(2)[0]
    elif layout == "heads first":
        made = torch.zeros(batch, heads, length, dim, **given).transpose(1, 2)
    elif layout == "heads first, one sequence":
        made = torch.zeros(1, heads, length, dim, **given).transpose(1, 2)
    elif layout == "one of a wider head":
        made = torch.zeros(batch, length, heads, 2 * dim, **given)[..., :dim]
    elif layout == "last stride 2":
        made = torch.zeros(batch, length, heads, dim, 2, **given)[..., 0]
    else:
        made = torch.zeros(batch, length, heads, dim, **given)
    return made.requires_grad_(grad)


def three(layout, device, kv_heads=4, kv_length=None, **more):
    q = operand(layout, device=device, **more)
    others = {**more, "heads": kv_heads, "length": kv_length or more.get("length", 32)}
    return q, operand(layout, device=device, **others), operand(layout, device=device, **others)


def packed(device, heads=4, kv_heads=4, dim=64, layout="plain", dtype=torch.bfloat16, ends="int32"):
    rows = "heads first, one sequence" if layout == "heads first" else layout
    q, k, v = (operand(rows, 96, n, dim, dtype, device, batch=1)[0] for n in (heads, kv_heads, kv_heads))
    return q, k, v, torch.tensor([0, 32, 96], dtype=getattr(torch, ends), device=device)


def calls_of_flash_attn(device):
    """FlashAttention 2."""
    fa = importlib.import_module("flash_attn")
    for layout, dim in itertools.product((*LAYOUTS, "last stride 2"), (64, 60)):
        yield f"dense, {layout}, dim {dim}", lambda x=layout, d=dim: fa.flash_attn_func(*three(x, device, dim=d))
    for layout, dim in itertools.product(LAYOUTS, (64, 60)):
        yield (
            f"dense, one query of grouped heads, {layout}, dim {dim}",
            lambda x=layout, d=dim: fa.flash_attn_func(*three(x, device, kv_heads=2, length=1, kv_length=32, dim=d)),
        )
    yield "dense with its rows", lambda: fa.flash_attn_func(*three("plain", device), return_attn_probs=True)
    yield (
        "dense with its rows, grouped, one query",
        lambda: fa.flash_attn_func(*three("plain", device, kv_heads=2, length=1, kv_length=32), return_attn_probs=True),
    )
    for layout in ("plain", "heads first", "of a packed projection"):
        yield f"gradients, {layout}", lambda x=layout: gradients(fa.flash_attn_func, three(x, device, grad=True))
    yield "gradients, dim 60", lambda: gradients(fa.flash_attn_func, three("plain", device, dim=60, grad=True))
    qkv = torch.zeros(2, 32, 3, 4, 64, dtype=torch.bfloat16, device=device)
    yield "packed", lambda: fa.flash_attn_qkvpacked_func(qkv)
    yield "packed, gradients", lambda: gradients(fa.flash_attn_qkvpacked_func, (qkv.clone().requires_grad_(),))
    yield "kv packed", lambda: fa.flash_attn_kvpacked_func(operand("heads first", device=device), qkv[:, :, :2])
    yield (
        "kv packed, gradients",
        lambda: gradients(
            fa.flash_attn_kvpacked_func,
            (operand("plain", device=device, grad=True), qkv[:, :, :2].clone().requires_grad_()),
        ),
    )
    for layout, dim in itertools.product(("plain", "heads first", "of a packed projection"), (64, 60)):

        def varlen(x=layout, d=dim, **more):
            q, k, v, ends = packed(device, layout=x, dim=d)
            return fa.flash_attn_varlen_func(q, k, v, ends, ends, 64, 64, **more)

        yield f"packed sequences, {layout}, dim {dim}", varlen
    yield "packed sequences with their rows", lambda: varlen("plain", 64, return_attn_probs=True)

    def one_each(**more):
        q, k, v, ends = packed(device, 4, 2)
        starts = torch.arange(3, dtype=torch.int32, device=device)
        return fa.flash_attn_varlen_func(q[:2], k, v, starts, ends, 1, 64, **more)

    yield "packed sequences of one query", one_each
    yield "packed sequences of one query with their rows", lambda: one_each(return_attn_probs=True)
    for layout, length, dim in itertools.product(("plain", "heads first"), (1, 4), (64, 60)):

        def cached(x=layout, n=length, d=dim, **more):
            q, k, v = three(x, device, kv_heads=2, length=n, kv_length=64, dim=d)
            lengths = torch.full((2,), 16, dtype=torch.int32, device=device)
            return fa.flash_attn_with_kvcache(q, k, v, cache_seqlens=lengths, **more)

        yield f"with a cache, {length} queries, {layout}, dim {dim}", cached
    yield "with a cache and its rows", lambda: cached("plain", 4, 64, return_softmax_lse=True)
    yield (
        "with a cache, requires grad",
        lambda: fa.flash_attn_with_kvcache(*three("plain", device, grad=True)).requires_grad,
    )
    yield "three dimensions", lambda: fa.flash_attn_func(*(t[0] for t in three("plain", device)))
    yield (
        "another batch in k",
        lambda: fa.flash_attn_func(
            operand("plain", device=device), operand("plain", device=device, batch=1), operand("plain", device=device)
        ),
    )
    yield (
        "another length in v",
        lambda: fa.flash_attn_func(
            operand("plain", device=device), operand("plain", device=device), operand("plain", 16, device=device)
        ),
    )
    yield "soft cap with dropout", lambda: fa.flash_attn_func(*three("plain", device), dropout_p=0.1, softcap=10.0)
    yield (
        "a cache with last stride 2",
        lambda: fa.flash_attn_with_kvcache(
            operand("plain", device=device), *(operand("last stride 2", device=device) for _ in "kv")
        ),
    )


def calls_of_flash_attn_interface(device):
    """FlashAttention 3."""
    fa = importlib.import_module("flash_attn_interface")
    for layout in (*LAYOUTS, "last stride 2"):
        yield f"dense, {layout}", lambda x=layout: first(fa.flash_attn_func(*three(x, device)))
    yield "dense, dim 60", lambda: first(fa.flash_attn_func(*three("plain", device, dim=60)))
    for layout in ("plain", "heads first"):

        def varlen(x=layout):
            q, k, v, ends = packed(device, layout=x)
            return first(fa.flash_attn_varlen_func(q, k, v, ends, ends, 64, 64))

        yield f"packed sequences, {layout}", varlen
    for layout in ("plain", "heads first", "of a packed projection"):
        yield f"gradients, {layout}", lambda x=layout: gradients(fa.flash_attn_func, three(x, device, grad=True))
    yield "with a cache", lambda: fa.flash_attn_with_kvcache(*three("heads first", device))
    yield "float32", lambda: first(fa.flash_attn_func(*three("plain", device, dtype=torch.float32)))
    yield "dim 264", lambda: first(fa.flash_attn_func(*three("plain", device, dim=264)))


def calls_of_flash_attn_cute(device):
    """FlashAttention 4."""
    fa = importlib.import_module("flash_attn.cute")
    for layout in LAYOUTS:
        yield f"dense, {layout}", lambda x=layout: fa.flash_attn_func(*three(x, device))
    yield "dense with its rows", lambda: fa.flash_attn_func(*three("plain", device), return_lse=True)
    yield "dense, last stride 2", lambda: fa.flash_attn_func(*three("last stride 2", device))

    def varlen(**more):
        q, k, v, ends = packed(device)
        given = {"cu_seqlens_q": ends, "cu_seqlens_k": ends, "max_seqlen_q": 64, "max_seqlen_k": 64}
        return fa.flash_attn_varlen_func(q, k, v, **given, **more)

    yield "packed sequences", varlen
    yield "packed sequences with their rows", lambda: varlen(return_lse=True)
    yield "gradients, heads first", lambda: gradients(fa.flash_attn_func, three("heads first", device, grad=True))
    yield "float32", lambda: fa.flash_attn_func(*three("plain", device, dtype=torch.float32))
    yield "dim 60", lambda: fa.flash_attn_func(*three("plain", device, dim=60))
    yield "3 heads of k for 4 of q", lambda: fa.flash_attn_func(*three("plain", device, kv_heads=3))


def calls_of_xformers(device):
    xops = importlib.import_module("xformers.ops")
    attention = xops.memory_efficient_attention
    for layout, dtype in itertools.product(LAYOUTS, (torch.bfloat16, torch.float32)):
        name = f"{layout}, {str(dtype)[6:]}"
        yield name, lambda x=layout, t=dtype: attention(*three(x, device, dtype=t))
        yield f"gradients, {name}", lambda x=layout, t=dtype: gradients(attention, three(x, device, dtype=t, grad=True))
    for layout in ("plain", "heads first"):
        yield (
            f"three dimensions, {layout}",
            lambda x=layout: attention(*(t[:, :, 0] for t in three(x, device))),
        )

        def grouped(x=layout):
            q, k, v = three(x, device, kv_heads=2)
            k, v = (t.unsqueeze(3).expand(-1, -1, -1, 2, -1) for t in (k, v))
            return attention(q.unflatten(2, (2, 2)), k, v)

        yield f"grouped heads, {layout}", grouped

        def causal(x=layout):
            return attention(*three(x, device), attn_bias=xops.LowerTriangularMask())

        yield f"causal, {layout}", causal

        def biased(x=layout):
            bias = torch.zeros(2, 4, 32, 32, dtype=torch.bfloat16, device=device)
            return attention(*three(x, device), attn_bias=bias)

        yield f"with a bias, {layout}", biased

        def documents(x=layout):
            rows = "heads first, one sequence" if x == "heads first" else x
            bias = xops.fmha.BlockDiagonalMask.from_seqlens([12, 20])
            return attention(*(t[:1] for t in three(rows, device)), attn_bias=bias)

        yield f"packed sequences, {layout}", documents
    yield "last stride 2", lambda: attention(*three("last stride 2", device))
    yield "dim 60", lambda: attention(*three("plain", device, dim=60))
    yield "float64", lambda: attention(*three("plain", device, dtype=torch.float64))
    yield (
        "float32 k",
        lambda: attention(
            operand("plain", device=device), *(operand("plain", dtype=torch.float32, device=device) for _ in "kv")
        ),
    )
    yield "float32 bias", lambda: attention(*three("plain", device), torch.zeros(2, 4, 32, 32, device=device))
    yield (
        "bias of another shape",
        lambda: attention(*three("plain", device), torch.zeros(2, 1, 32, 32, dtype=torch.bfloat16, device=device)),
    )
    yield "another output dtype", lambda: attention(*three("plain", device), output_dtype=torch.float32)


def calls_of_sdpa(device):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    f = torch.nn.functional.scaled_dot_product_attention
    backends = {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
        "math": SDPBackend.MATH,
    }
    for name, layout, dim in itertools.product(backends, LAYOUTS, (64, 60)):

        def call(n=name, x=layout, d=dim, **more):
            with sdpa_kernel([backends[n]]):
                return f(*(t.transpose(1, 2) for t in three(x, device, dim=d, **more)))

        yield f"{name}, {layout}, dim {dim}", call
    for name in backends:
        yield f"{name}, grad mode", lambda n=name: call(n, "of a packed projection", 64, grad=True).detach()


def calls_of_flex(device):
    flex = importlib.import_module("torch.nn.attention.flex_attention")
    compiled = torch.compile(flex.flex_attention, dynamic=False)
    for layout in LAYOUTS:
        yield layout, lambda x=layout: compiled(*(t.transpose(1, 2) for t in three(x, device, length=128)))
    yield (
        "with its rows",
        lambda: compiled(*(t.transpose(1, 2) for t in three("plain", device, length=128)), return_lse=True),
    )


def calls_of_sageattention(device):
    sage = importlib.import_module("sageattention")
    for layout, dim, form in itertools.product(
        ("plain", "heads first", "of a packed projection"), (64, 96), ("NHD", "HND")
    ):

        def call(x=layout, d=dim, form=form, **more):
            given = three(x, device, length=128, dim=d, **more)
            given = given if form == "NHD" else tuple(t.transpose(1, 2) for t in given)
            return sage.sageattn(*given, tensor_layout=form)

        yield f"{form}, {layout}, dim {dim}", call
    yield "float32", lambda: call("plain", 64, "NHD", dtype=torch.float32)
    yield "dim 72", lambda: call("plain", 72, "NHD")
    yield "last stride 2", lambda: call("last stride 2", 64, "NHD")
    yield "float64", lambda: call("plain", 64, "NHD", dtype=torch.float64)


def calls_of_fla(device):
    """The output, and whether there is a state."""
    q, k, v = three("plain", device, length=64)
    gate = torch.nn.functional.logsigmoid(torch.randn(2, 64, 4, 64, device=device)).bfloat16()
    scalar = torch.nn.functional.logsigmoid(torch.randn(2, 64, 4, device=device))
    beta = torch.rand(2, 64, 4, device=device).bfloat16()
    for final in (False, True):
        more = {"output_final_state": final}
        words = "with its state" if final else "without its state"
        for module, name, given in (
            ("gla", "chunk_gla", (q, k, v, gate)),
            ("gla", "fused_recurrent_gla", (q, k, v, gate)),
            ("gated_delta_rule", "chunk_gated_delta_rule", (q, k, v, scalar, beta)),
            ("gsa", "chunk_gsa", (q, k, v, gate, gate)),
            ("simple_gla", "chunk_simple_gla", (q, k, v, scalar)),
            ("linear_attn", "chunk_linear_attn", (q, k, v)),
            ("retention", "chunk_retention", (q, k, v)),
        ):

            def call(module=module, name=name, given=given, more=more):
                return getattr(importlib.import_module("fla.ops." + module), name)(*given, **more)

            yield f"{name}, {words}", call


LIBRARIES = {
    "flash_attn": calls_of_flash_attn,
    "flash_attn_interface": calls_of_flash_attn_interface,
    "flash_attn.cute": calls_of_flash_attn_cute,
    "xformers": calls_of_xformers,
    "sdpa": calls_of_sdpa,
    "flex": calls_of_flex,
    "sageattention": calls_of_sageattention,
    "fla": calls_of_fla,
}


def first(given):
    """The output alone: between releases the log-sum-exp came beside it, or did not."""
    return given[0] if isinstance(given, tuple) else given


def gradients(function, operands):
    out = first(function(*operands))
    out.sum().backward()
    return (out.detach(), *(one.grad for one in operands))


def told(answer):
    if isinstance(answer, tuple):
        return [told(one) for one in answer]
    if not isinstance(answer, torch.Tensor):
        return repr(answer)
    # The stride of a dimension of one element means nothing.
    strides = ["-" if n == 1 else str(s) for n, s in zip(answer.shape, answer.stride(), strict=True)]
    shape = "x".join(str(n) for n in answer.shape)
    return f"{shape} {str(answer.dtype)[6:]} strides {','.join(strides)}"


def answer(call, device):
    try:
        given = told(call())
        if device == "cuda":
            torch.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".strip()
    return given


def answers(device, libraries):
    return {library: {name: answer(call, device) for name, call in LIBRARIES[library](device)} for library in libraries}


class Model(torch.nn.Module):
    """For the tracer: its forward pass makes every call, under the stand-ins, and writes the answers down."""

    def __init__(self, file, libraries):
        super().__init__()
        self.file, self.libraries = file, libraries

    def forward(self, x):
        with open(self.file, "w") as file:
            json.dump(answers("cuda" if "sdpa" in self.libraries else "cpu", self.libraries), file)
        return x


def every_call(answers_file, libraries):
    return Model(answers_file, libraries), (torch.zeros(2, 2),)


if __name__ == "__main__":
    found = {}
    for library in sys.argv[2:] or LIBRARIES:
        try:
            found.update(answers("cuda", [library]))
        except Exception as error:
            print(library, "could not be tried:", repr(error)[:300])
    with open(sys.argv[1], "w") as file:
        json.dump(found, file, indent=1)
    print({library: len(calls) for library, calls in found.items()})
