"""Speed of a kernel as a share of the speeds that this GPU reaches in a large matrix product and a large copy.

Absolute numbers depend on the current clock; shares are comparable between GPUs and days. Changes nothing on the GPU.
"""

from __future__ import annotations

from typing import Callable, Dict, Optional, Tuple

import torch

from .problems import Problem

_SIDE = 8192
_COPY_BYTES = 2**30
_SHARE_OF_MEMORY = 0.1
_REPEATS = 8


def milliseconds(work: Callable[[], object], device: torch.device) -> float:
    """The fastest of some runs, by the GPU's own clock; two warm-up runs are not counted.

    For calls of half a millisecond the median depends on the processor's load: it differed by a factor of two between
    runs.
    """
    for _ in range(2):
        work()
    times = []
    for _ in range(_REPEATS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize(device)
        times.append(start.elapsed_time(end))
    return float(min(times))


def ceilings(device: torch.device, capability: Tuple[int, int]) -> Dict[str, float]:
    """TFLOP/s of a matrix product in each dtype and GB/s of a copy, as measured now on this GPU."""
    free, _ = torch.cuda.mem_get_info(device)
    found = {}
    dtypes = ("bfloat16", "float16", "float32") if capability >= (8, 0) else ("float16", "float32")
    for dtype in dtypes:
        work, of_one = product(device, dtype)
        found["matmul_" + dtype] = of_one / milliseconds(work, device) / 1e9
        del work
    size = int(min(_COPY_BYTES, free * _SHARE_OF_MEMORY))
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    time = milliseconds(lambda: target.copy_(source), device)
    found["copy"] = 2.0 * size / time / 1e6
    return {name: round(value, 1) for name, value in found.items()}


def product(device: torch.device, dtype: str) -> Tuple[Callable[[], object], float]:
    """A large matrix product to time, and its number of floating-point operations."""
    free, _ = torch.cuda.mem_get_info(device)
    # float32 without TF32 is about twenty times slower, and small GPUs have little memory.
    side = _SIDE if dtype != "float32" and free > 8 * 2**30 else _SIDE // 2
    left, right = (torch.randn(side, side, device=device).to(getattr(torch, dtype)) for _ in range(2))
    out = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=out), 2.0 * side**3


def flops(problem: Problem) -> float:
    """Operations of the two matrix products, counting only the scores that the form needs; a backward pass costs 2.5
    times that.
    """
    batch, heads, queries, head_dim = problem.q.shape
    pairs, dims = queries * problem.k.shape[2], head_dim + problem.v.shape[3]
    allowed = problem.allowed()
    share = 1.0 if allowed is None or problem.mask is not None else float(allowed.float().mean())
    forward = 2.0 * batch * heads * pairs * dims * share
    return float(forward) * (3.5 if problem.cell.direction == "train" else 1.0)


def moved(problem: Problem) -> float:
    """Bytes of all operands and results, each counted once: the minimum for any kernel."""
    tensors = [*problem.leaves().values(), problem.out_gradient]
    once = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    return float(once) * (2.0 if problem.cell.direction == "train" else 1.0)


def once(compute: Callable[[], torch.Tensor], problem: Problem) -> Callable[[], None]:
    """One call to time: forward, and backward when the problem trains."""

    def call() -> None:
        with torch.set_grad_enabled(problem.cell.direction == "train"):
            out = compute()
        if problem.cell.direction == "train":
            trained = [leaf for leaf in problem.leaves().values() if leaf.requires_grad]
            torch.autograd.grad(out, trained, problem.out_gradient)

    return call


def memory(compute: Callable[[], torch.Tensor], problem: Problem) -> int:
    """Bytes that one call takes at most besides its operands."""
    call = once(compute, problem)
    call()
    torch.cuda.synchronize(problem.device)
    before = torch.cuda.memory_allocated(problem.device)
    torch.cuda.reset_peak_memory_stats(problem.device)
    call()
    torch.cuda.synchronize(problem.device)
    return int(torch.cuda.max_memory_allocated(problem.device) - before)


def measure(
    compute: Callable[[], torch.Tensor],
    problem: Problem,
    ceiling: Dict[str, float],
    timed: Callable[[Callable[[], object], torch.device], float] = milliseconds,
) -> Dict[str, Optional[float]]:
    """Milliseconds (by `timed`), TFLOP/s and GB/s of one call, and their shares of the ceilings."""

    time = timed(once(compute, problem), problem.device)
    gbs = moved(problem) / time / 1e6
    tflops = flops(problem) / time / 1e9
    top = ceiling.get("matmul_" + problem.cell.dtype)
    return {
        "ms": round(time, 4),
        "tflops": round(tflops, 1),
        "gbs": round(gbs, 1),
        "of_matmul": round(tflops / top, 4) if top else None,
        "of_copy": round(gbs / ceiling["copy"], 4) if ceiling.get("copy") else None,
    }
