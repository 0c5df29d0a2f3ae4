"""What a guard costs a training step, as a ratio in one process: `python bench/watch_cost.py [--device cuda]`.

Steps without hooks, steps between two examined ones, and examined steps, taken in turn; the cost at defaults is that of
99 steps of the second kind and one of the third. Wants: at most 1 %.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import torch
from torch import nn
from torch.nn import functional

import attn_doctor

EVERY = 100


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.after(x))))


def main() -> None:
    """Prints the medians and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--width", type=int, default=0)
    parser.add_argument("--length", type=int, default=0)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8)
    asked = parser.parse_args()
    large = asked.device == "cuda"
    layers, width = asked.layers or (16 if large else 4), asked.width or (2048 if large else 512)
    length = asked.length or (4096 if large else 512)
    torch.manual_seed(0)
    dtype = torch.bfloat16 if large else torch.float32
    model = nn.Sequential(*(Block(width, width // 64) for _ in range(layers))).to(asked.device, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    x = torch.randn(asked.batch, length, width, device=asked.device, dtype=dtype)

    # On a CPU that others use as well, wall time says how busy it is.
    clock = time.perf_counter if large else time.process_time

    def step() -> float:
        start = clock()
        model(x).float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if large:
            torch.cuda.synchronize()
        return clock() - start

    for _ in range(3):
        step()
    plain, between, examined = [], [], []
    for _ in range(asked.rounds):
        plain += [step() for _ in range(4)]
        with attn_doctor.watch(every=10**6) as guard:
            guard.step()  # ends the first one, in which nothing ran
            for _ in range(4):
                start = clock()
                step()
                guard.step()
                between.append(clock() - start)
        with attn_doctor.watch(every=1) as guard:
            for number in range(3):
                start = clock()
                step()
                guard.step()
                if number:  # the first one also loads what it needs
                    examined.append(clock() - start)
        assert not guard.told, guard.told
    one, two, three = (statistics.median(times) for times in (plain, between, examined))
    cost = ((EVERY - 1) * two + three) / (EVERY * one) - 1
    name = torch.cuda.get_device_name() if large else "CPU"
    print(
        f"{name}, torch {torch.__version__}: {layers} layers, width {width}, {asked.batch} x {length} tokens, {dtype}"
    )
    print(f"a step {one * 1e3:.1f} ms, between {two * 1e3:.1f} ms, examined {three * 1e3:.1f} ms")
    print(f"an examined step costs {three / one - 1:+.1%}; one in {EVERY}: {cost:+.2%} (wanted: at most 1 %)")
    print(f"examined alone, spread over {EVERY}: {(three - one) / one / EVERY:+.3%}")


if __name__ == "__main__":
    main()
