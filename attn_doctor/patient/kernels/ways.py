"""Ways to call a kernel: once more after another call, from a CUDA graph, in torch's deterministic mode."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Callable, ContextManager, Iterator

import torch

from . import problems
from .problems import Problem
from .situations import Situation

Compute = Callable[[], torch.Tensor]
Prepare = Callable[[Problem], Compute]

_WARM_UP = 2


def of_calling(situation: Situation) -> ContextManager[object]:
    """The state of torch in which the calls are made."""
    return _deterministic() if situation.calls == "deterministic" else contextlib.nullcontext()


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    """torch's own kernels have no argument for it; those of libraries are given theirs by calls.options_of."""
    before = torch.are_deterministic_algorithms_enabled()
    fills = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # memory that is not written has to show
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.utils.deterministic.fill_uninitialized_memory = fills


def compute(problem: Problem, prepare: Prepare, situation: Situation, seed: int) -> Compute:
    """The call to judge, with what its situation puts before or around it."""
    plain = prepare(problem)
    if situation.calls == "again":
        return _after_another(plain, problem, prepare, seed)
    if situation.calls == "graph" and problem.device.type == "cuda":
        return _replayed(problem, prepare, seed)
    return plain


def _after_another(plain: Compute, problem: Problem, prepare: Prepare, seed: int) -> Compute:
    """Other values in contiguous tensors of the same shapes first: what a kernel keeps by shape alone shows then."""
    other = problems.relaid(problem, seed)
    before = prepare(other)

    def call() -> torch.Tensor:
        out = before()
        if out.requires_grad:
            torch.autograd.grad(out, [other.q, other.k, other.v], other.out_gradient)
        return plain()

    return call


def _replayed(problem: Problem, prepare: Prepare, seed: int) -> Compute:
    """Captured with other values in the same memory, which then get the problem's own."""
    other = problems.relaid(problem, seed)
    static = dataclasses.replace(problem, q=problem.q.clone(), k=problem.k.clone(), v=problem.v.clone())
    kept = prepare(static)

    def fill(source: Problem) -> None:
        for name in ("q", "k", "v"):
            getattr(static, name).copy_(getattr(source, name))

    def call() -> torch.Tensor:
        fill(other)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                kept()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = kept()
        fill(problem)
        graph.replay()
        torch.cuda.synchronize()
        return out.clone()

    return call
