"""The speed of a kernel as a share of a matrix product timed with it, at one large size. It is compared with the same
kernel elsewhere (recipes/kernel_shares.toml).

The shapes of the trials are too small for this: their shares differed by a factor of two between runs. Here calls are
timed in batches, so that the processor runs ahead of the GPU, and the product is timed before and after, so that clock
and power are equal for both.
"""

from __future__ import annotations

import math
from typing import Callable, Dict

import torch

from . import speed
from .problems import Problem, Sizes

SIZES: Sizes = (4, 16, 4096)
_BATCH_MS = 20.0
_BATCHES = 3


def milliseconds(work: Callable[[], object], device: torch.device) -> float:
    """Time of one call, in the fastest of some batches."""
    for _ in range(2):
        work()
    once = _timed(work, 1, device)
    calls = max(1, math.ceil(_BATCH_MS / max(once, 0.01)))
    return min(_timed(work, calls, device) for _ in range(_BATCHES)) / calls


def _timed(work: Callable[[], object], calls: int, device: torch.device) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(calls):
        work()
    end.record()
    torch.cuda.synchronize(device)
    return float(start.elapsed_time(end))


def measure(compute: Callable[[], torch.Tensor], problem: Problem) -> Dict[str, float]:
    """TFLOP/s of the kernel and of the product, and their ratio."""
    device = problem.device
    product, flops = speed.product(device, problem.cell.dtype)
    call = speed.once(compute, problem)
    before = milliseconds(product, device)
    time = milliseconds(call, device)
    after = milliseconds(product, device)
    matmul = flops / min(before, after) / 1e9
    tflops = speed.flops(problem) / time / 1e9
    return {"tflops": round(tflops, 1), "matmul_tflops": round(matmul, 1), "of_matmul": round(tflops / matmul, 4)}
