"""Task `kernels.run`: every kernel of the matrix on every GPU, each GPU in a child of its own, all at once.

Request: `mode` ("quick", "full" or "replay"), `backends` (names; None: all installed; `module:function` is a user's
function), `folders` (searched last for user functions), `dtypes` (None: all), `seed`, `budget` (seconds for each GPU,
from the import of torch on), `cell_timeout` (seconds), `scratch`, `devices` (None: the GPUs that torch sees; in tests
"cpu…"), `calls` (None, or recorded calls, which are tried instead: recorded.py), `gpu` (None, or the GPU to plan for
when there is none). Answers: plan (the trials to run, and why others do not), gpus, done; meanwhile, lines of
cells-DEVICE*.jsonl: a cell begun, a cell finished; without a GPU lines of compiled.jsonl, from compilation.py.

Elsewhere: the children of one GPU (lines.py), the work of a child (child.py), one trial (trial.py).
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import os
import resource
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from .. import answers as _answers
from .. import forked, imports, outcomes, torch_facts
from . import child, compilation, lines, plan, recorded
from .cells import Place
from .registry import BACKENDS, OWN, Backend, backend

if TYPE_CHECKING:
    from types import ModuleType

    from ..forked import Tell
    from ..torch_facts import Device

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
        calls = self.request.get("calls")
        if calls:
            return plan.make_replay(backends, place, recorded.add(calls))
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
            children += lines.Device(
                child.Work(
                    torch=self.torch,
                    device=name,
                    file=os.path.join(self.answers, "cells-" + name),
                    deadline=self.imported + float(self.request["budget"]),
                    cell_timeout=self.cell_timeout,
                    seed=int(self.request["seed"]),
                    waits_for=None,
                ),
                self.scratch,
                lines.at_once(len(devices)) if place.capability is not None else 1,
            ).children(made.cells)
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
