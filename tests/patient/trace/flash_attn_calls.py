"""Calls of flash_attn 2, right and wrong ones, and what it answers: one table for the kernels and for the stand-in.

python tests/patient/trace/flash_attn_calls.py ANSWERS.json      on a GPU, with the real flash_attn
"""

import itertools
import json
import sys

import torch

HALVES = ("float16", "bfloat16")


def _of(dtype):
    return getattr(torch, dtype)


def calls():
    """name -> function(flash_attn, device) that makes the call. Names are the keys of the recorded answers."""
    table = {}

    def dense(
        name, q="bfloat16", k=None, v=None, dim=64, heads=4, kv_heads=4, lengths=(64, 64), k_dim=None, layout="", **more
    ):
        def call(fa, device):
            def tensor(dtype, length, count, size):
                made = torch.zeros(2, length, count, size, dtype=_of(dtype), device=device)
                if layout == "dim-last-strided":
                    made = torch.zeros(2, length, count, 2 * size, dtype=_of(dtype), device=device)[..., ::2]
                if layout == "heads-first":
                    made = torch.zeros(2, count, length, size, dtype=_of(dtype), device=device).transpose(1, 2)
                return made

            return fa.flash_attn_func(
                tensor(q, lengths[0], heads, dim),
                tensor(k or q, lengths[1], kv_heads, k_dim or dim),
                tensor(v or q, lengths[1], kv_heads, k_dim or dim),
                **more,
            )

        table[name] = call

    for q, k, v in itertools.product(("float16", "bfloat16", "float32"), repeat=3):
        dense(f"dense {q} {k} {v}", q, k, v)
    dense("dense float64", "float64")
    dense("dense int32", "int32")
    for dim in (64, 128, 60, 124, 264, 512):
        dense(f"dense dim {dim}", dim=dim)
        dense(f"dense fp32 dim {dim}", "float32", dim=dim)
    dense("dense causal", causal=True)
    dense("dense causal 32 queries 64 keys", lengths=(32, 64), causal=True)
    dense("dense 1 query", lengths=(1, 64))
    dense("dense q dim 64 k dim 128", k_dim=128)
    for kv_heads in (1, 2, 3):
        dense(f"dense {kv_heads} kv heads", kv_heads=kv_heads)
    dense("dense 3 kv heads fp32 v", v="float32", kv_heads=3)
    dense("dense dim 512 3 kv heads", dim=512, kv_heads=3)
    dense("dense strided head dim", layout="dim-last-strided")
    dense("dense heads first", layout="heads-first")
    dense("dense scale", softmax_scale=0.5)

    def packed(name, dtype, kv=None, dim=64, heads=4):
        def call(fa, device):
            if kv is None:
                return fa.flash_attn_qkvpacked_func(torch.zeros(2, 64, 3, heads, dim, dtype=_of(dtype), device=device))
            q = torch.zeros(2, 64, heads, dim, dtype=_of(dtype), device=device)
            return fa.flash_attn_kvpacked_func(q, torch.zeros(2, 64, 2, heads, dim, dtype=_of(kv), device=device))

        table[name] = call

    for dtype in ("float16", "bfloat16", "float32"):
        packed(f"qkvpacked {dtype}", dtype)
        for kv in ("bfloat16", "float32"):
            packed(f"kvpacked {dtype} {kv}", dtype, kv)
    packed("qkvpacked dim 512", "bfloat16", dim=512)

    def varlen(name, q="bfloat16", k=None, v=None, dim=64, kv_heads=4, ends="int32"):
        def call(fa, device):
            def tensor(dtype, count):
                return torch.zeros(96, count, dim, dtype=_of(dtype), device=device)

            starts = torch.tensor([0, 32, 96], dtype=_of(ends), device=device)
            return fa.flash_attn_varlen_func(
                tensor(q, 4), tensor(k or q, kv_heads), tensor(v or q, kv_heads), starts, starts, 64, 64, causal=True
            )

        table[name] = call

    for q, k, v in itertools.product(("bfloat16", "float32"), repeat=3):
        varlen(f"varlen {q} {k} {v}", q, k, v)
    varlen("varlen int64 ends", ends="int64")
    varlen("varlen int64 ends fp32 q", q="float32", ends="int64")
    varlen("varlen dim 512", dim=512)
    varlen("varlen 2 kv heads", kv_heads=2)
    varlen("varlen 3 kv heads", kv_heads=3)

    def cached(name, q="bfloat16", cache=None, new=None):
        def call(fa, device):
            def tensor(dtype, length):
                return torch.zeros(2, length, 4, 64, dtype=_of(dtype), device=device)

            fresh = {} if new is None else {"k": tensor(new, 1), "v": tensor(new, 1)}
            lengths = torch.tensor([16, 16], dtype=torch.int32, device=device)
            return fa.flash_attn_with_kvcache(
                tensor(q, 1),
                tensor(cache or q, 64),
                tensor(cache or q, 64),
                cache_seqlens=lengths,
                causal=True,
                **fresh,
            )

        table[name] = call

    for q, cache in itertools.product(("bfloat16", "float32"), repeat=2):
        cached(f"kvcache {q} {cache}", q, cache)
    cached("kvcache new keys", new="bfloat16")
    cached("kvcache new keys float32", new="float32")
    return table


def answer(call, flash_attn, device):
    """`ok SHAPE DTYPE`, or the error's class and first line."""
    try:
        out = call(flash_attn, device)
        if device == "cuda":
            torch.cuda.synchronize()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}".strip()
    out = out[0] if isinstance(out, tuple) else out
    return f"ok {'x'.join(str(size) for size in out.shape)} {str(out.dtype).replace('torch.', '')}"


def answers(device):
    import flash_attn

    return {name: answer(call, flash_attn, device) for name, call in calls().items()}


class Model(torch.nn.Module):
    """For the tracer: its forward pass makes every call, under the stand-in, and writes the answers down."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def forward(self, x):
        with open(self.file, "w") as file:
            json.dump(answers("cpu"), file)
        return x


def every_call(answers_file):
    return Model(answers_file), (torch.zeros(2, 2),)


if __name__ == "__main__":
    import flash_attn

    about = {
        "flash_attn": flash_attn.__version__,
        "torch": torch.__version__,
        "gpu": "{}.{}".format(*torch.cuda.get_device_capability()),
        "build": "head dims 64 and 128; no dropout, alibi, softcap, local attention or uneven head dims",
    }
    with open(sys.argv[1], "w") as file:
        json.dump({"about": about, "answers": answers("cuda")}, file, indent=1)
