"""Without a GPU: compiles the Triton kernels of a plan for the GPU that was named. Runs none of them.

A library's layer, or a user's function (own_launches.py), is run forward and backward once on the CPU under CUDA's
rules, with its launches recorded instead of made. Then each launch is compiled in a child of its own
(simulate/triton/compile.py). The recording runs in a child as well: a crash costs only that backend, is reported, and a
new child continues. torch itself generates FlexAttention's kernels (flex_kernels.py).

Lines of compiled.jsonl: a backend begun, a backend finished with its verdicts. plan.py chooses the kernels.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import signal
import time
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .. import forked, imports
from ..samples import catalogue
from ..simulate.cuda import simulated_gpu
from . import child
from .cells import Cell
from .registry import OWN, backend

if TYPE_CHECKING:
    from ..simulate.cuda.simulated_gpu import Described
    from ..simulate.triton.record import Launch
    from ..trace.answer import Request

_LEAST_RECORDING = 30.0
"""Shortest time in seconds for recording a backend: the first one imports the library."""
_LATE = 30.0


@dataclasses.dataclass(frozen=True)
class Task:
    """A backend whose kernels are compiled."""

    backend: str
    sample: Optional[catalogue.Sample] = None
    """The layer whose launches are recorded."""
    cells: Tuple[Cell, ...] = ()
    """The calls to record, when there is no such layer."""


Todo = List[Task]


@dataclasses.dataclass
class Work:
    """Settings shared by all children of one node."""

    gpu: Described
    deadline: float
    """time.monotonic()"""
    file: str
    scratch: str


def todo(
    cells: Sequence[Cell],
    wanted: Sequence[str],
    gpu: Described,
    flex_calls: Sequence[Cell],
    left_out: Mapping[str, int],
) -> Tuple[Todo, Optional[str]]:
    """The source of each backend's launches, and the reason when there is none.

    `cells`: those that would run. `wanted`: the backends requested. `flex_calls`, `left_out`: from plan.py.
    """
    able = [one for one in map(backend, wanted) if one.compiled_as]
    if not able:
        return [], "nothing that was asked for is compiled by Triton"
    titles = ", ".join(one.title for one in able)
    if not any(one.module is None or _there(one.module) for one in able):
        own = all(one.calls == OWN for one in able)
        return [], "{}: not {}".format(titles, "found" if own else "installed")
    would = {cell.backend for cell in cells}
    if not any(one.name in would for one in able):
        waiting = ", ".join(one.title for one in able if left_out.get(one.name))
        if waiting:
            return [], "none of these would run unless it is named or in `full`: {}".format(waiting)
        return [], "nothing that Triton compiles would run, as said above"
    if not _there("triton"):
        return [], "Triton is not installed"
    try:
        simulated_gpu.from_request(gpu)
    except ValueError as error:
        return [], str(error)
    known = {one.name: one for library in catalogue.LIBRARIES for one in catalogue.samples_of(library)}
    made: Todo = []
    for name, dtype in dict.fromkeys((c.backend, c.dtype) for c in cells if backend(c.backend).sample):
        made.append(Task(name, sample=known["{}-{}".format(backend(name).sample, dtype)]))
    for name in dict.fromkeys(c.backend for c in cells if backend(c.backend).compiled_as == "call"):
        made.append(Task(name, cells=tuple(cell for cell in cells if cell.backend == name)))
    if "flex" in would:
        made.append(Task("flex", cells=tuple(flex_calls)))  # last: its process is unusable afterwards
    return made, None


def _there(module: Optional[str]) -> bool:
    try:
        return module is not None and importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return False


def children(work: Work, left: Todo) -> List[forked.Child]:
    """The child that compiles all of them; when it dies, another child for the rest."""

    def done(ended: forked.Ended) -> List[forked.Child]:
        lines = child.lines(work.file)
        begun = [line["begun"] for line in lines if "begun" in line]
        finished = {line["compiled"]["backend"] for line in lines if "compiled" in line}
        if not begun or begun[-1] in finished:
            return []
        slow = ended.hung or ended.signal == signal.SIGALRM
        error = "it did not end in time and was killed" if slow else imports.in_words(imports.outcome(ended))
        calls = [line["call"] for line in lines if "call" in line and line["backend"] == begun[-1]]
        if calls:
            error += " (at {})".format(calls[-1])
        child.note(work.file, {"compiled": {"backend": begun[-1], "error": error, "kernels": []}})
        rest = left[[task.backend for task in left].index(begun[-1]) + 1 :]
        return children(work, rest) if rest and time.monotonic() < work.deadline else []

    timeout = max(1.0, work.deadline - time.monotonic()) + _LATE
    return [forked.Child("compilation", lambda tell: _compile(work, left), timeout, done)]


def _compile(work: Work, left: Todo) -> None:
    from ..samples import library_run

    library_run.prepare(work.scratch)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    for number, task in enumerate(left):
        seconds = work.deadline - time.monotonic()
        if seconds <= 0:
            return
        waiting = len(left) - number
        child.note(work.file, {"begun": task.backend})
        # A layer that hangs must leave time for the others. The alarm's default action does not need Python.
        signal.setitimer(signal.ITIMER_REAL, min(seconds, max(seconds / waiting, _LEAST_RECORDING)))
        how = backend(task.backend).compiled_as
        if how == "inductor":
            signal.setitimer(signal.ITIMER_REAL, 0)  # its calls run in children with deadlines
            told = _flex(task, work)
        elif how == "call":
            told = _own(task, work, waiting)
        else:
            told = _layer(task, work, waiting)
        child.note(work.file, {"compiled": {"backend": task.backend, **told}})


def _layer(task: Task, work: Work, waiting: int) -> Dict[str, object]:
    assert task.sample is not None
    launches, error = _recorded(task.sample, work)
    signal.setitimer(signal.ITIMER_REAL, 0)
    return {"error": error, "kernels": _verdicts(launches, work, waiting)}


def _own(task: Task, work: Work, waiting: int) -> Dict[str, object]:
    from . import own_launches

    def at(cell: Cell) -> None:
        child.note(work.file, {"backend": task.backend, "call": cell.words})

    # Half of its share of time is kept for compiling.
    until = time.monotonic() + (work.deadline - time.monotonic()) / waiting / 2
    seen = own_launches.record(task.cells, work.gpu, work.scratch, until, at)
    signal.setitimer(signal.ITIMER_REAL, 0)
    kernels = _verdicts(seen.launches, work, waiting)
    kernels = [{**one, "call": call} for one, call in zip(kernels, seen.calls)]
    return {"error": seen.error, "nothing": seen.nothing, "kernels": kernels}


def _flex(task: Task, work: Work) -> Dict[str, object]:
    from . import flex_kernels

    return flex_kernels.look(task.cells, simulated_gpu.from_request(work.gpu), work.scratch, work.deadline)


def _recorded(sample: catalogue.Sample, work: Work) -> Tuple[List[Launch], Optional[str]]:
    """The launches, and the reason when some are missing."""
    from ..trace.run import run as tracer

    seen: List[List[Launch]] = []
    request: Request = {
        "kind": "factory",
        "target": sample.target,
        "kwargs": sample.arguments,
        "autocast": sample.autocast,
        "backward": sample.backward,
        "rules": "cpu",
        "gpu": work.gpu,
        "scratch": work.scratch,
        "counterfactual": False,
        "stand_ins": ["none but those installed"],
    }
    answer = tracer.trace(request, on_launches=seen.append)
    launches = seen[-1] if seen else []
    if answer["outcome"] != "finished":
        error = answer["error"]
        words = error["words"] or error["message"] if error is not None else ""
        return launches, words or "the layer {}".format(answer["outcome"])
    return launches, None if launches else "the layer launched no Triton kernel"


def _verdicts(launches: List[Launch], work: Work, waiting: int) -> List[Dict[str, Any]]:
    from ..simulate.triton import compile as triton_compile

    seconds = max(0.0, work.deadline - time.monotonic()) / waiting
    found = triton_compile.compile_launches(
        launches,
        [simulated_gpu.from_request(work.gpu)],
        scratch=work.scratch,
        timeout=60.0,
        budget=seconds,
        configurations="enough",
    )
    return [
        {
            "kernel": one.kernel,
            "place": one.call_site,
            "outcome": one.outcome,
            "message": one.message,
            "cause": one.cause,
            "required_bytes": one.required,
            "limit_bytes": one.limit,
            "configurations": len(one.configurations),
            "left_out": one.left_out,
        }
        for one in found
    ]
