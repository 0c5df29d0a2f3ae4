"""Task `kernels.run`: every kernel of the matrix on every GPU, each GPU in a child of its own, all at once.

Request: `mode` ("quick" or "full"), `backends` (names; None: all that are installed; `module:function` is one of
the person's own), `dtypes` (None: all), `seed`, `budget` (seconds for each GPU, counted from when torch is
imported), `cell_timeout` (seconds), `scratch`, `devices` (None: the GPUs that torch sees; ["cpu"] in tests),
`gpu` (None, or the GPU to plan for where there is none). Answers: plan (what would run and what would not, and why),
gpus, done; and while they come, lines of cells-DEVICE.jsonl: a cell begun, a cell done.

A child that dies costs the cell that it was at; a fresh one goes on with the next. Not here: one trial (trial.py).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import resource
import signal
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from .. import answers as _answers
from .. import forked, imports, torch_facts
from . import plan
from .cells import Cell, Place, from_json
from .registry import BACKENDS, Backend, backend

_MOST_DEATHS = 12  # of children of one GPU: one that kills every child is not worth more
_COMPILING = 6  # times the time of another cell
_MOST_OF_ONE = 3  # that one backend may take along: the rest of its cells is not run


def main(request: Dict[str, Any], answers: str) -> None:
    _Run(request, answers).run()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


class _Device:
    """One GPU on its way through its cells."""

    def __init__(self, name: str, cells: List[Cell], file: str, deadline: float) -> None:
        self.name = name
        self.left = list(cells)
        self.file = file
        self.deadline = deadline
        self.deaths = 0
        self.taken: Dict[str, int] = {}
        self.ceiling: Optional[Dict[str, float]] = None


class _Run:
    def __init__(self, request: Dict[str, Any], answers: str) -> None:
        self.request = request
        self.answers = answers
        self.scratch: str = request.get("scratch") or answers
        self.seed = int(request["seed"])
        self.budget = float(request["budget"])
        self.cell_timeout = float(request.get("cell_timeout") or 10.0)
        self._plans: Dict[str, plan.Plan] = {}

    def _write(self, name: str, value: Any) -> None:
        _answers.write(self.answers, name, value)

    def run(self) -> None:
        started = time.monotonic()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
        # A pool of compilers for each GPU would outlive the child that started it.
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        outcome, _ = imports.attempt("torch")
        if outcome["outcome"] != "imported":
            self._write("plan", {"error": "importing torch {}".format(outcome["outcome"]), "backends": []})
            self._write("done", {"seconds": round(time.monotonic() - started, 3)})
            return
        self.torch = sys.modules["torch"]
        self.imported = time.monotonic()
        wanted = self.request.get("devices")
        if wanted:
            children = self._devices({"devices": [{"index": name} for name in wanted]})
            forked.run(children, max(1, len(children)), self.scratch)
        elif torch_facts.is_cpu_build(self.torch):
            self._plan_only(torch_facts.cpu_build(self.torch)["reason"])
        else:
            at_once = 64  # GPUs of one node
            forked.run([self._asking_cuda()], at_once, self.scratch)
        self._write("done", {"seconds": round(time.monotonic() - started, 3)})

    def _asking_cuda(self) -> forked.Child:
        def work(tell: Callable[[Any], None]) -> None:
            tell({**torch_facts.cuda(self.torch), "cudnn": _cudnn(self.torch)})

        def done(ended: forked.Ended) -> List[forked.Child]:
            told = imports.outcome(ended)
            if told["outcome"] != "told":
                self._plan_only(imports.in_words(told))
                return []
            cuda = told["value"]
            if not cuda.get("devices"):
                self._plan_only(cuda.get("reason") or "torch sees no GPU")
                return []
            return self._devices(cuda)

        return forked.Child("cuda", imports.telling_errors(work), 60.0, done)

    # -----------------------------------------------------------------------------------------------------------

    def _plan_only(self, reason: str) -> None:
        """No GPU: what would run on the one that was named, and nothing that ran."""
        gpu = self.request.get("gpu")
        if gpu is None:
            self._write("plan", {"no_gpu": reason, "backends": [], "cells": [], "not_offered": [], "left_out": []})
            return
        place = self._place(plan.capability(gpu["compute_capability"]), gpu.get("name") or "", None)
        made = plan.make(self._backends(), place, self.request["mode"], self._dtypes())
        self._write("plan", {"no_gpu": reason, "gpu": gpu, **made.as_json()})

    def _devices(self, cuda: Dict[str, Any]) -> List[forked.Child]:
        children: List[forked.Child] = []
        gpus: List[Dict[str, Any]] = []
        for device in cuda["devices"]:
            name = str(device["index"])
            gpus.append({key: value for key, value in device.items() if key != "uuid"})
            gpus[-1]["uuid"] = device.get("uuid")
            if "error" in device:
                continue
            capability = device.get("compute_capability")
            place = self._place(
                plan.capability(capability) if capability and "gcnArchName" not in device else None,
                device.get("name") or name,
                cuda.get("cudnn"),
            )
            made = self._plans[name] = plan.make(self._backends(), place, self.request["mode"], self._dtypes())
            file = os.path.join(self.answers, "cells-{}.jsonl".format(name))
            state = _Device(name, made.cells, file, self.imported + self.budget)
            children.append(self._child(state))
        self._write("plan", {"plans": {name: made.as_json() for name, made in self._plans.items()}})
        self._write("gpus", {"gpus": gpus})
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

    def _dtypes(self) -> Optional[List[str]]:
        return self.request.get("dtypes") or None

    def _backends(self) -> List[Tuple[Backend, Optional[str]]]:
        """Those wanted, each with why it cannot be run here at all, or None."""
        names = self.request.get("backends") or [one.name for one in BACKENDS]
        return [(one, _missing(one)) for one in (backend(name) for name in names)]

    # -----------------------------------------------------------------------------------------------------------

    def _child(self, state: _Device) -> forked.Child:
        left = max(1.0, state.deadline - time.monotonic())
        return forked.Child(
            "gpu " + state.name,
            lambda tell: self._in_child(state, tell),
            # Each cell has an alarm of its own; this ends what outlives all of them.
            timeout=left + _COMPILING * self.cell_timeout + 60.0,
            done=lambda ended: self._ended(state, ended),
        )

    def _in_child(self, state: _Device, tell: Callable[[Any], None]) -> None:
        os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
        device = state.name if state.name == "cpu" else "cuda:" + state.name
        with open(state.file, "a", encoding="ascii") as file:

            def note(line: Dict[str, Any]) -> None:
                file.write(json.dumps(line, default=str) + "\n")
                file.flush()

            self._cells(state, device, note)

    def _cells(self, state: _Device, device: str, note: Callable[[Dict[str, Any]], None]) -> None:
        _alarm(self.cell_timeout + 30.0)
        from . import speed, trial

        torch = self.torch
        ceiling = state.ceiling
        if device == "cpu":
            torch.set_num_threads(1)
        else:
            torch.cuda.set_device(device)
            capability = torch.cuda.get_device_capability(device)
            free, total = torch.cuda.mem_get_info(device)
            if ceiling is None:
                note({"memory": {"free": free, "total": total}})
                ceiling = speed.ceilings(torch.device(device), capability)
                note({"ceiling": ceiling})
        for number, cell in enumerate(state.left):
            if time.monotonic() > state.deadline:
                break
            note({"begun": cell.as_json()})
            one = backend(cell.backend)
            # The kernel ends this process when the time is over, wherever it hangs; what is compiled takes longer.
            _alarm(self.cell_timeout * (_COMPILING if one.compiled else 1))
            # Its own for each cell, so that a cell that is run alone is given the same numbers.
            result = trial.attempt(cell, one, device, self.seed + _hash(cell), ceiling)
            note({"cell": cell.as_json(), **result})
            if result.get("context_lost"):
                break
        _alarm(0)

    def _ended(self, state: _Device, ended: forked.Ended) -> List[forked.Child]:
        lines = _lines(state.file)
        finished = {from_json(line["cell"]) for line in lines if "cell" in line}
        ceilings = [line["ceiling"] for line in lines if "ceiling" in line]
        state.ceiling = ceilings[-1] if ceilings else None
        begun = [from_json(line["begun"]) for line in lines if "begun" in line]
        died_at = begun[-1] if begun and begun[-1] not in finished else None
        before = len(state.left)  # a child that came to no cell would come to none the next time
        if died_at is not None:
            with open(state.file, "a", encoding="ascii") as file:
                file.write(json.dumps({"cell": died_at.as_json(), **_death(ended)}, default=str) + "\n")
            finished.add(died_at)
            state.taken[died_at.backend] = state.taken.get(died_at.backend, 0) + 1
        state.left = [cell for cell in state.left if cell not in finished]
        given_up = {name for name, deaths in state.taken.items() if deaths >= _MOST_OF_ONE}
        dropped = [cell for cell in state.left if cell.backend in given_up]
        if dropped:
            reason = "not run: this backend ended its process {} times".format(_MOST_OF_ONE)
            with open(state.file, "a", encoding="ascii") as file:
                for cell in dropped:
                    file.write(json.dumps({"cell": cell.as_json(), "outcome": "not run", "reason": reason}) + "\n")
            state.left = [cell for cell in state.left if cell.backend not in given_up]
        well = ended.status == 0 and not ended.hung
        if not state.left or time.monotonic() > state.deadline:
            return []
        if not well or len(state.left) == before:
            state.deaths += 1
        if len(state.left) == before or state.deaths > _MOST_DEATHS:
            why = _death(ended)["reason"] if len(state.left) == before else "too many kernels ended their process"
            with open(state.file, "a", encoding="ascii") as file:
                file.write(json.dumps({"stopped": why}) + "\n")
            return []
        return [self._child(state)]


def _missing(one: Backend) -> Optional[str]:
    if one.module is None:
        return None
    try:
        found = importlib.util.find_spec(one.module) is not None
    except (ImportError, ValueError, AttributeError):
        found = False
    return None if found else "not installed"


def _cudnn(torch: Any) -> Optional[int]:
    try:
        return torch.backends.cudnn.version()
    except Exception:  # noqa: BLE001
        return None


def _hash(cell: Cell) -> int:
    return sum(ord(letter) * (number + 1) for number, letter in enumerate(cell.name)) % 100_003


def _alarm(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _death(ended: forked.Ended) -> Dict[str, Any]:
    """How the cell ended that took its child along."""
    if ended.hung or ended.signal == signal.SIGALRM:
        return {"outcome": "hung", "reason": "it did not end in time and was killed"}
    if ended.trouble:
        return {"outcome": "hung", "reason": ended.trouble}
    words = " ".join(ended.stderr.strip().splitlines()[-1:])[:200]
    if ended.signal is not None:
        name = signal.Signals(ended.signal).name
        return {"outcome": "crashed", "reason": "killed by {}".format(name) + (": " + words if words else "")}
    status = "left the process with status {}".format(ended.status)
    return {"outcome": "crashed", "reason": status + (": " + words if words else "")}


def _lines(file: str) -> List[Dict[str, Any]]:
    try:
        with open(file, encoding="ascii") as handle:
            text = handle.read()
    except OSError:
        return []
    found = []
    for line in text.split("\n")[:-1]:  # the last is empty, or was cut short
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
