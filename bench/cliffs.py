"""What the slow way of an attention call costs beside the fast one, on this GPU: a ratio for each known cliff.

    python bench/cliffs.py [--length 8192] [--json OUT.json]

Runs in the interpreter that holds torch; needs a GPU and no other package. Each pair computes the same numbers,
but for the delta rule, which has no kernel in torch. Forward and backward, medians of `--rounds`; memory is the
highest of one call beside what was there before. A way that runs out of memory, or that this torch refuses, is said and
has no ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as sdpa

Way = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
FUSED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]


def as_picked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal, by whichever backend torch picks."""
    return sdpa(q, k, v, is_causal=True)


def by(backend: SDPBackend) -> Way:
    """Causal, by one backend."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel([backend]):
            return sdpa(q, k, v, is_causal=True)

    return attend


def in_bf16(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Float32 operands, cast for the call."""
    return as_picked(q.bfloat16(), k.bfloat16(), v.bfloat16()).float()


def with_mask(length: int, dtype: torch.dtype) -> Way:
    """The causal triangle as a mask tensor."""
    seen = torch.ones(length, length, dtype=torch.bool, device="cuda").tril()
    mask = seen if dtype == torch.bool else torch.zeros_like(seen, dtype=dtype).masked_fill_(~seen, float("-inf"))
    return lambda q, k, v: sdpa(q, k, v, attn_mask=mask)


def padded(to: int) -> Way:
    """The head dimension padded with zeros to one that kernels take."""

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        dim = q.shape[-1]
        wide = [torch.nn.functional.pad(one, (0, to - dim)) for one in (q, k, v)]
        return sdpa(*wide, is_causal=True, scale=dim**-0.5)[..., :dim]

    return attend


def split_heads(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """A head dimension beyond every fused kernel, by FlexAttention compiled."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    global _FLEX
    if _FLEX is None:
        length = q.shape[-2]
        blocks = create_block_mask(lambda _b, _h, row, column: row >= column, None, None, length, length)
        compiled = torch.compile(flex_attention)
        _FLEX = lambda *operands: compiled(*operands, block_mask=blocks)  # noqa: E731
    return _FLEX(q, k, v)


_FLEX: Any = None


def eager(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """As models write it out: product, mask, softmax in float32, product."""
    scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
    return torch.softmax(scores.masked_fill(hidden, float("-inf")), -1, dtype=torch.float32).to(q.dtype) @ v


def delta_loop(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, chunk: int = 64) -> torch.Tensor:
    """A gated delta rule as a loop of torch operations over chunks, in the form that models fall back to."""
    batch, heads, length, dim = q.shape
    q, k, v = (
        one.float().view(batch, heads, -1, chunk, dim) for one in (q, torch.nn.functional.normalize(k, dim=-1), v)
    )
    beta = 0.5
    lower = torch.ones(chunk, chunk, device=q.device).tril(-1)
    inverse = torch.linalg.solve_triangular(
        torch.eye(chunk, device=q.device) + beta * (k @ k.transpose(-1, -2)) * lower,
        torch.eye(chunk, device=q.device).expand(*k.shape[:3], chunk, chunk),
        upper=False,
    )
    state, out = q.new_zeros(batch, heads, dim, dim), []
    for at in range(length // chunk):
        now, key, value = q[:, :, at], k[:, :, at], v[:, :, at]
        new = inverse[:, :, at] @ (beta * (value - key @ state))
        out.append(now @ state + ((now @ key.transpose(-1, -2)).tril() @ new))
        state = state + key.transpose(-1, -2) @ new
    return torch.cat(out, dim=2).to(torch.bfloat16)


def cliffs(length: int) -> list[tuple[str, torch.dtype, int, Way, str, Way | None]]:
    """(what is slow, dtype, head dimension, the slow way, what is fast, the fast way or None: another package's)."""
    half = torch.bfloat16
    return [
        ("float32 operands", torch.float32, 128, as_picked, "cast to bf16 for the call", in_bf16),
        ("a causal mask of bools", half, 128, with_mask(length, torch.bool), "is_causal=True", as_picked),
        ("a causal mask in bf16", half, 128, with_mask(length, half), "is_causal=True", as_picked),
        ("math", half, 128, by(SDPBackend.MATH), "as torch picks", as_picked),
        ("eager", half, 128, eager, "as torch picks", as_picked),
        ("head dim 100", half, 100, as_picked, "padded to 104", padded(104)),
        ("head dim 97", half, 97, as_picked, "padded to 104", padded(104)),
        ("head dim 288", half, 288, as_picked, "FlexAttention compiled", split_heads),
        ("a delta rule as a loop over chunks", half, 128, delta_loop, "full attention of the same size", as_picked),
    ]


def measured(way: Way, operands: list[torch.Tensor], rounds: int) -> dict[str, Any]:
    """Milliseconds of forward and backward, and the bytes that one call holds at most."""
    try:
        gradient = torch.randn_like(way(*operands))

        def call() -> None:
            for one in operands:
                one.grad = None
            way(*operands).backward(gradient)

        call()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        memory = torch.cuda.max_memory_allocated() - before
        times = []
        for _ in range(rounds):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return {"error": "out of memory"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"}
    return {"milliseconds": statistics.median(times), "bytes": memory}


def main() -> None:
    """Prints a line for each cliff."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.manual_seed(0)
    rows = []
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, length {asked.length}, {asked.heads} heads")
    for slow_words, dtype, dim, slow, fast_words, fast in cliffs(asked.length):
        operands = [
            torch.randn(1, asked.heads, asked.length, dim, device="cuda", dtype=dtype).requires_grad_()
            for _ in range(3)
        ]
        told = {"slow": measured(slow, operands, asked.rounds)}
        if fast is not None:
            told["fast"] = measured(fast, operands, asked.rounds)
        row: dict[str, Any] = {"cliff": slow_words, "instead": fast_words, **told}
        times = [told[one].get("milliseconds") for one in ("slow", "fast") if one in told]
        if len(times) == 2 and None not in times:
            row["ratio"] = times[0] / times[1]
            row["memory_ratio"] = told["slow"]["bytes"] / max(told["fast"]["bytes"], 1)
        rows.append(row)
        errors = "; ".join(f"{one}: {told[one]['error']}" for one in told if "error" in told[one])
        words = f"{row['ratio']:.2f}x the time, {row['memory_ratio']:.1f}x the memory" if "ratio" in row else errors
        print(f"{slow_words} | {fast_words}: {words}", *(f"{n} {one}" for n, one in told.items()), sep="  ", flush=True)
        del operands
        torch.cuda.empty_cache()
    if asked.json is not None:
        asked.json.write_text(
            json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows})
        )


if __name__ == "__main__":
    main()
