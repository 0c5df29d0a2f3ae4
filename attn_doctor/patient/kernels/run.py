"""Task `kernels.run`: every kernel of the matrix on every GPU, each GPU in a child of its own, all at once.

Request: `mode` ("quick" or "full"), `backends` (names; None: all installed; `module:function` is a user's function),
`folders` (searched last for user functions), `dtypes` (None: all), `seed`, `budget` (seconds for each GPU, from the
import of torch on), `cell_timeout` (seconds), `scratch`, `devices` (None: the GPUs that torch sees; in tests "cpu…"),
`gpu` (None, or the GPU to plan for when there is none). Answers: plan (the trials to run, and why others do not), gpus,
done; meanwhile, lines of cells-DEVICE*.jsonl: a cell begun, a cell finished; without a GPU lines of compiled.jsonl,
from compilation.py.

A child that dies costs only its current cell; a new one continues with the next. Kernels that are compiled when they
are called have a child each: they import and compile in parallel, and run only after the GPU's own child has ended,
whose timings must not be disturbed. Elsewhere: the work of a child (child.py), one trial (trial.py).
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import os
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from .. import answers as _answers
from .. import forked, imports, outcomes, torch_facts
from . import child, compilation, plan
from .cells import Cell, Place, from_json
from .registry import BACKENDS, OWN, Backend, backend

if TYPE_CHECKING:
    from types import ModuleType

    from ..forked import Tell
    from ..torch_facts import Device

_MOST_OF_ONE = 3
"""Number of children that one backend may kill before the rest of its cells is skipped."""
_AT_ONCE = 256


def main(request: Dict[str, Any], answers: str) -> None:
    _Run(request, answers).run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Run:
    def __init__(self, request: Dict[str, Any], answers: str) -> None:
        self.request = request
        self.answers = answers
        self.scratch: str = request.get("scratch") or answers
        self.cell_timeout = float(request.get("cell_timeout") or 10.0)
        self.torch: Any = None
        self.imported = 0.0
        # Last, so that files in the folder of a user's function hide no package.
        sys.path += request.get("folders") or []

    def _write(self, name: str, value: object) -> None:
        _answers.write(self.answers, name, value)

    def run(self) -> None:
        started = time.monotonic()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        # A pool of compilers for each GPU would outlive the child that started it.
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        outcome, _ = imports.attempt("torch")
        if outcome["outcome"] != outcomes.IMPORTED:
            self._write("plan", {"error": "importing torch {}".format(outcome["outcome"]), "backends": []})
        else:
            self.torch = sys.modules["torch"]
            self.imported = time.monotonic()
            self._run()
        self._write("done", {"seconds": round(time.monotonic() - started, 3)})

    def _run(self) -> None:
        wanted = self.request.get("devices")
        if wanted:
            children = self._devices([{"index": name} for name in wanted], None)
            forked.run(children, _AT_ONCE, self.scratch)
        elif torch_facts.is_cpu_build(self.torch):
            forked.run(self._plan_only(torch_facts.cpu_build(self.torch)["reason"] or ""), 1, self.scratch)
        else:
            forked.run([self._asking_cuda()], _AT_ONCE, self.scratch)

    def _asking_cuda(self) -> forked.Child:
        def work(tell: Tell) -> None:
            tell({**torch_facts.cuda(self.torch), "cudnn": _cudnn(self.torch)})

        def done(ended: forked.Ended) -> List[forked.Child]:
            told = imports.outcome(ended)
            if told["outcome"] != outcomes.TOLD:
                return self._plan_only(imports.in_words(told))
            cuda = told["value"]
            if not cuda.get("devices"):
                return self._plan_only(cuda.get("reason") or "torch sees no GPU")
            return self._devices(cuda["devices"], cuda.get("cudnn"))

        return forked.Child("cuda", imports.telling_errors(work), 60.0, done)

    # -----------------------------------------------------------------------------------------------------------

    def _plan_only(self, reason: str) -> List[forked.Child]:
        """Without a GPU: the plan for the GPU that was named, and children that compile for it. Runs nothing."""
        gpu = self.request.get("gpu")
        if gpu is None:
            self._write("plan", {"no_gpu": reason, "backends": [], "cells": [], "not_offered": [], "left_out": {}})
            return []
        place = self._place(plan.capability(gpu["compute_capability"]), gpu.get("name") or "", None)
        made = self._plan(place)
        flex_calls = plan.flex_calls(place, self.request["mode"], self.request.get("dtypes") or None)
        names = [one["name"] for one in made.backends]
        left, why_not = compilation.todo(made.cells, names, gpu, flex_calls, made.left_out)
        to_compile = {"backends": [task.backend for task in left], "why_not": why_not}
        self._write("plan", {"no_gpu": reason, "gpu": gpu, **made.as_json(), "to_compile": to_compile})
        work = compilation.Work(
            gpu=gpu,
            deadline=self.imported + float(self.request["budget"]),
            file=os.path.join(self.answers, "compiled.jsonl"),
            scratch=self.scratch,
        )
        return compilation.children(work, left) if left else []

    def _plan(self, place: Place) -> plan.Plan:
        """The plan for the requested backends, each with the reason why it cannot run here at all, or None."""
        names = self.request.get("backends") or [one.name for one in BACKENDS]
        backends = [(one, _missing(one, place)) for one in (backend(name) for name in names)]
        named = bool(self.request.get("backends"))
        return plan.make_plan(backends, place, self.request["mode"], self.request.get("dtypes") or None, named=named)

    def _devices(self, devices: List[Device], cudnn: Optional[int]) -> List[forked.Child]:
        children: List[forked.Child] = []
        plans: Dict[str, object] = {}
        for device in devices:
            name = str(device["index"])
            if "error" in device:
                continue
            capability = device.get("compute_capability")
            place = self._place(
                plan.capability(capability) if capability and "gcnArchName" not in device else None,
                device.get("name") or name,
                cudnn,
            )
            made = self._plan(place)
            plans[name] = made.as_json()
            children += [_Line(self, name, part, cells).child() for part, cells in _parts(made.cells).items()]
        self._write("plan", {"plans": plans})
        self._write("gpus", {"gpus": devices})
        return children

    def _place(self, capability: Optional[Tuple[int, int]], name: str, cudnn: Optional[int]) -> Place:
        versions = {}
        for one in BACKENDS:
            if one.distribution:
                try:
                    versions[one.distribution] = importlib.metadata.version(one.distribution)
                except importlib.metadata.PackageNotFoundError:
                    pass
        return Place(
            capability=capability,
            gpu_name=name,
            torch_version=str(self.torch.__version__),
            cudnn=cudnn,
            versions=versions,
        )


class _Line:
    """Cells that run one after the other on one GPU, in as many children as needed."""

    def __init__(self, run: _Run, device: str, part: str, cells: List[Cell]) -> None:
        self.part = part
        self.left = list(cells)
        self.deadline = run.imported + float(run.request["budget"])
        self.taken: Dict[str, int] = {}
        quiet = os.path.join(run.scratch, "quiet-" + device)
        self.work = child.Work(
            torch=run.torch,
            device=device,
            file=os.path.join(run.answers, "cells-{}{}.jsonl".format(device, "." + part if part else "")),
            deadline=self.deadline,
            cell_timeout=run.cell_timeout,
            seed=int(run.request["seed"]),
            waits_for=quiet if part else None,
        )
        self.quiet = None if part else quiet

    def child(self) -> forked.Child:
        return forked.Child(
            "gpu {} {}".format(self.work.device, self.part),
            lambda tell: child.run(self.work, self.left),
            # Each cell has an alarm of its own; this limit ends a child that outlives all of them.
            timeout=max(1.0, self.deadline - time.monotonic()) + self.work.cell_timeout + 60.0,
            done=self._ended,
        )

    def _ended(self, ended: forked.Ended) -> List[forked.Child]:
        more = self._more(ended)
        if not more and self.quiet is not None:
            with open(self.quiet, "w"):
                pass
        return more

    def _more(self, ended: forked.Ended) -> List[forked.Child]:
        lines = child.lines(self.work.file)
        finished = {from_json(line["cell"]) for line in lines if "cell" in line}
        ceilings = [line["ceiling"] for line in lines if "ceiling" in line]
        self.work.ceiling = ceilings[-1] if ceilings else None
        begun = [from_json(line["begun"]) for line in lines if "begun" in line]
        died_at = begun[-1] if begun and begun[-1] not in finished else None
        before = len(self.left)
        if died_at is not None:
            late = backend(died_at.backend).compiled and time.monotonic() > self.deadline
            child.note(self.work.file, {"cell": died_at.as_json(), **(_LATE if late else death(ended))})
            finished.add(died_at)
            self.taken[died_at.backend] = self.taken.get(died_at.backend, 0) + 1
        self.left = [cell for cell in self.left if cell not in finished]
        came_to_none = len(self.left) == before  # the next child would make no progress either
        given_up = {name for name, deaths in self.taken.items() if deaths >= _MOST_OF_ONE}
        for cell in [cell for cell in self.left if cell.backend in given_up]:
            reason = "not run: this backend ended its process {} times".format(_MOST_OF_ONE)
            child.note(self.work.file, {"cell": cell.as_json(), "outcome": "not run", "reason": reason})
        self.left = [cell for cell in self.left if cell.backend not in given_up]
        if not self.left or time.monotonic() > self.deadline:
            return []
        if came_to_none:
            child.note(self.work.file, {"stopped": death(ended)["reason"]})
            return []
        return [self.child()]


_LATE = {"outcome": "not run", "reason": "it was still being compiled when the time was over"}


def _parts(cells: List[Cell]) -> Dict[str, List[Cell]]:
    """Groups the cells into children: the GPU's own line under "", one for each compiled backend and each fixed tuning
    choice, and one for each backend that cannot share a process with another."""
    parts: Dict[str, List[Cell]] = {"": []}
    names = {cell.backend for cell in cells}
    for cell in cells:
        one = backend(cell.backend)
        part = "-".join([cell.backend, *cell.variant.split()]) if one.compiled or one.apart_from in names else ""
        parts.setdefault(part, []).append(cell)
    return parts


def _missing(one: Backend, place: Place) -> Optional[str]:
    if one.module is None or (_is_there(one.module) and (one.alone or one.distribution in place.versions)):
        return None
    if one.calls == OWN:
        return "no module {} was found, neither installed nor in the current folder".format(one.module)
    return "not installed"


def _is_there(module: str) -> bool:
    """True when it could be imported. Imports nothing: find_spec of flash_attn.cute would import its parent
    flash_attn.
    """
    folders: Any = None
    found: Any = None
    names = module.split(".")
    for depth in range(1, len(names) + 1):
        try:
            if depth == 1:
                found = importlib.util.find_spec(names[0])
            else:
                found = importlib.machinery.PathFinder.find_spec(".".join(names[:depth]), folders)
        except (ImportError, ValueError, AttributeError):
            return False
        if found is None:
            return False
        folders = found.submodule_search_locations or []
    return True


def _cudnn(torch: ModuleType) -> Optional[int]:
    try:
        version = torch.backends.cudnn.version()
        return None if version is None else int(version)
    except Exception:  # noqa: BLE001
        return None


def death(ended: forked.Ended) -> Dict[str, object]:
    """The result of the cell that killed its child."""
    if ended.hung or ended.signal == signal.SIGALRM:
        return {"outcome": outcomes.HUNG, "reason": "it did not end in time and was killed"}
    if ended.trouble:
        return {"outcome": outcomes.HUNG, "reason": ended.trouble}
    words = " ".join(ended.stderr.strip().splitlines()[-1:])[:200]
    if ended.signal is not None:
        name = next((one.name for one in signal.Signals if one == ended.signal), "signal {}".format(ended.signal))
        return {"outcome": outcomes.CRASHED, "reason": "killed by {}".format(name) + (": " + words if words else "")}
    status = "left the process with status {}".format(ended.status)
    return {"outcome": outcomes.CRASHED, "reason": status + (": " + words if words else "")}
