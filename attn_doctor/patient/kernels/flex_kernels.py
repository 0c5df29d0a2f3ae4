"""FlexAttention without a GPU: compiles the kernels that torch generates for the GPU that was named.

The installed torch lowers each call (../simulate/triton/inductor.py) in a child, and each distinct kernel is compiled
once, in a child of its own. When one needs too much shared memory, smaller blocks in `kernel_options` are tried, so
that the advice is known to compile. Nothing is run. plan.py chooses the calls.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from ..libraries import flex
from ..simulate import children
from ..simulate.cuda import simulated_gpu
from ..simulate.triton import compile as triton_compile
from ..simulate.triton import driver as triton_driver
from ..simulate.triton import inductor
from . import problems
from .cells import Cell
from .registry import backend

_TIMEOUT = 120.0
"""Seconds for lowering one call, and for compiling one kernel: unrolled float32 products alone take half a minute."""
_OWN = "flex_attention"
"""Part of the names of its kernels; torch also generates a few that fill and cast, as for any function."""
_LONGEST = 500

Options = Dict[str, int]
SMALLER: Tuple[Options, ...] = (
    {"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_M1": 32, "BLOCK_N1": 64, "BLOCK_M2": 64, "BLOCK_N2": 32, "num_stages": 1},
    {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_M1": 32, "BLOCK_N1": 32, "BLOCK_M2": 32, "BLOCK_N2": 32, "num_stages": 1},
    {"BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_M1": 16, "BLOCK_N1": 16, "BLOCK_M2": 16, "BLOCK_N2": 16, "num_stages": 1},
)
"""kernel_options, largest first: https://github.com/pytorch/pytorch/issues/133254."""


def look(cells: Sequence[Cell], gpu: simulated_gpu.Gpu, scratch: str, deadline: float) -> Dict[str, Any]:
    """Returns {"error": why some calls are missing, "kernels": verdicts}; stops at `deadline` (time.monotonic()).

    Run it in a child that ends afterwards: torch treats `gpu` as its own from then on.
    """
    try:
        inductor.become(gpu, scratch)
    except Exception as error:
        words = "this torch could not be brought to compile for a GPU that is not there"
        return {"error": "{}: {}".format(words, _first_line(error)), "kernels": []}
    _warm_up(cells)
    work = _Work(gpu, scratch, deadline)
    many = 2 * children.usable_cpus()
    for first in range(0, len(cells), many):
        if time.monotonic() < deadline:
            work.compile(cells[first : first + many])
            work.mend(cells[first : first + many])
    return work.answer(cells)


def _warm_up(cells: Sequence[Cell]) -> None:
    """Lowers one call before the forks: otherwise each child repeats torch's imports and reads, four times its own
    work.

    Without gradients, since autograd's threads would not exist in a child. Errors are reported by the children.
    """
    import torch

    torch.set_num_threads(1)
    try:
        sources(dataclasses.replace(cells[0], direction="forward"))
    except Exception:
        pass


class _Work:
    def __init__(self, gpu: simulated_gpu.Gpu, scratch: str, deadline: float) -> None:
        self.gpu, self.scratch, self.deadline = gpu, scratch, deadline
        self.verdicts: Dict[inductor.Source, triton_compile.ConfigurationVerdict] = {}
        self.of: Dict[Cell, List[inductor.Source]] = {}
        self.raised: Dict[Cell, str] = {}
        self.mended: Dict[Cell, Options] = {}

    def compile(self, cells: Sequence[Cell]) -> None:
        for cell, found in zip(cells, self._lowered([(cell, None) for cell in cells])):
            if isinstance(found, str):
                self.raised[cell] = found
            else:
                self.of[cell] = found
        self._compiled([source for cell in cells for source in self.of.get(cell, [])])

    def mend(self, cells: Sequence[Cell]) -> None:
        """For calls that need too much shared memory: finds the largest blocks with which they compile."""
        for cell in [cell for cell in cells if self._too_large(self.of.get(cell, []))]:
            for options in SMALLER:
                if time.monotonic() > self.deadline:
                    return
                found = self._lowered([(cell, options)])[0]
                if isinstance(found, str):
                    continue
                self._compiled(found)
                if all(self._outcome(source) == triton_compile.COMPILES for source in found):
                    self.mended[cell] = options
                    break

    def answer(self, cells: Sequence[Cell]) -> Dict[str, Any]:
        told: Dict[inductor.Source, Cell] = {}
        for cell in cells:
            for source in self.of.get(cell, []):
                told.setdefault(source, cell)
        words: Dict[str, List[Cell]] = {}
        for cell, error in self.raised.items():
            words.setdefault(error, []).append(cell)
        gaps = [
            "{} of {} calls could not be looked at: {} ({})".format(len(which), len(cells), error, which[0].words)
            for error, which in words.items()
        ]
        late = len(cells) - len(self.of) - len(self.raised)
        if late:
            gaps.append("{} of {} calls were not reached in time".format(late, len(cells)))
        return {"error": "; ".join(gaps) or None, "kernels": [self._kernel(*one) for one in told.items()]}

    def _kernel(self, source: inductor.Source, cell: Cell) -> Dict[str, Any]:
        one = self.verdicts.get(source)
        exceeds = one is not None and one.outcome == triton_compile.EXCEEDS_SHARED_MEMORY
        options = self.mended.get(cell) if exceeds else None
        told = {
            "kernel": source.name,
            "call": cell.words,
            "outcome": one.outcome if one else triton_compile.NOT_LOOKED,
            "message": one.message if one else "it was not compiled in time",
            "cause": one.cause if one else "",
            "required_bytes": one.required if one else None,
            "limit_bytes": self.gpu.shared_memory,
            "configurations": 1,
            "left_out": 0,
        }
        return {**told, "mended_by": "kernel_options={!r}".format(options)} if options else told

    def _too_large(self, sources: Sequence[inductor.Source]) -> bool:
        return any(self._outcome(source) == triton_compile.EXCEEDS_SHARED_MEMORY for source in sources)

    def _outcome(self, source: inductor.Source) -> Optional[str]:
        return self.verdicts[source].outcome if source in self.verdicts else None

    def _lowered(self, asked: Sequence[Tuple[Cell, Optional[Options]]]) -> List[Any]:
        """For each call its kernels, or the reason why there are none."""
        found: List[Any] = []
        for end in self._run([_lowering(cell, options) for cell, options in asked]):
            if end.answer is None:
                words = {"hung": "lowering did not end within {:g} s".format(_TIMEOUT)}
                words.update({"stopped": "the time was up", "not started": "the time was up"})
                found.append(
                    words.get(end.how) or "{} {}".format(end.how, triton_compile.last_words(end.output))[:_LONGEST]
                )
            elif "error" in end.answer:
                found.append(end.answer["error"])
            else:
                found.append([inductor.Source(*one) for one in end.answer["sources"]])
        return found

    def _compiled(self, sources: Sequence[inductor.Source]) -> None:
        """Compiles each new source; one that is not reached in time has no verdict."""
        new = [one for one in dict.fromkeys(sources) if one not in self.verdicts]
        for source, end in zip(new, self._run([_compiling(source) for source in new])):
            if end.how not in ("not started", "stopped", "hung"):
                # torch has no time limit of its own: on a busy machine "hung" proves nothing about the kernel.
                self.verdicts[source] = triton_compile.judge({}, end, _TIMEOUT)

    def _run(self, jobs: List[Callable[[], Dict[str, Any]]]) -> List[children.Ended]:
        return children.run_each(jobs, scratch=self.scratch, timeout=_TIMEOUT, deadline=self.deadline)


def _lowering(cell: Cell, options: Optional[Options]) -> Callable[[], Dict[str, Any]]:
    def job() -> Dict[str, Any]:
        try:
            return {"sources": [[one.name, one.text] for one in sources(cell, options)]}
        except Exception as error:
            return {"error": _first_line(error)}

    return job


def _compiling(source: inductor.Source) -> Callable[[], Dict[str, Any]]:
    return lambda: inductor.compile_here(source)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "{}: {}".format(type(error).__name__, lines[0] if lines else "")[:_LONGEST]


def sources(cell: Cell, options: Optional[Options] = None) -> List[inductor.Source]:
    """The kernels that torch generates for the call, forward and backward. Requires inductor.become(). Raises torch's
    errors.

    `options`: as a caller would pass them in kernel_options.
    """
    problem = problems.make_problem(cell, "cpu", 1, problems.SMALL)
    with inductor.lowered() as seen, _as_on_cuda(problem, options):
        out = flex.prepare(problem, backend("flex"))()
        if cell.direction == "train":
            out.backward(problem.out_gradient)
    found = [one for one in dict.fromkeys(seen) if _OWN in one.name]
    if not found:
        raise RuntimeError("torch made no Triton kernel of it")
    return found


@contextlib.contextmanager
def _as_on_cuda(problem: problems.Problem, options: Optional[Options]) -> Iterator[None]:
    """Makes flex_attention behave as on CUDA: on a CPU it refuses gradients and stores no logsumexp."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    module = importlib.import_module("torch.nn.attention.flex_attention")
    with FakeTensorMode():
        operands = {
            name: torch.empty(like.shape, dtype=like.dtype, device=torch.device("cuda", 0))
            for name, like in (("query", problem.q), ("key", problem.k), ("value", problem.v))
        }
    given = {**operands, "return_lse": False, "kernel_options": options, "return_aux": None}
    ask = module._apply_kernel_options
    on_cuda = ask(**{name: given[name] for name in inspect.signature(ask).parameters})
    with triton_driver.replaced(
        (module, "_validate_device", lambda *operands: None),
        (module, "_apply_kernel_options", lambda *args, **kwargs: dict(on_cuda)),
    ):
        yield
