"""Runs the trials of attention kernels (inside/kernels/) and puts what came of them into one answer, kernels/1.

The answer holds every trial, what was not offered and by which words, and what was not reached; facts are made of it
in kernel_facts.py. Where there is no GPU it holds what would run, what of that compiles, and nothing that ran.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn_doctor.machine.process import Completed
from attn_doctor.machine.target import Target, read_answer
from attn_doctor.probe import compiled_kernels, xids
from attn_doctor.probe.gpu_state import GpuStates
from attn_doctor.probe.xids import XidWatch

FORMAT = "kernels/1"
#: Seconds for each GPU, counted from when torch is imported.
BUDGETS = {"quick": 20.0, "full": 90.0}
_CELL_TIMEOUT = 10.0
#: torch names the sizes that it refuses; the words are the same for all of them.
_SIZES = re.compile(r"\[[\d, ]+\]")
_NOBODY = {"outcome": "could not", "message": "nobody listened", "gpus": []}
_GRACE = 120.0  # a cell that is compiled and hangs is ended by its own alarm after 60 s


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the person asked for."""

    mode: str
    seed: int
    budget: float | None = None
    backends: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """In which functions of the person's own are looked for, behind everything else that Python finds."""
    dtypes: tuple[str, ...] = ()
    gpu: Mapping[str, Any] | None = None
    """To plan for, where there is none."""

    @property
    def seconds(self) -> float:
        return self.budget if self.budget is not None else BUDGETS[self.mode]


def run(
    target: Target,
    asked: Asked,
    *,
    timeout: float,
    folder: Path,
    environment: Mapping[str, str],
    say: Callable[[str], None] = lambda _: None,
    devices: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The answer. timeout: seconds for importing torch. devices: in place of the GPUs that torch sees."""
    scratch = folder / "kernels-scratch"
    scratch.mkdir()
    started = time.monotonic()
    limit = timeout + asked.seconds + _GRACE
    before = GpuStates(environment, folder=folder, name="gpus-before")
    watch = XidWatch(environment, folder=folder, seconds=limit + 60.0)
    states: dict[str, Any] = {"before": before.answer(10.0)}
    watch.ready(5.0)
    running, answers = target.start_inside(
        "kernels.run",
        {
            "mode": asked.mode,
            "seed": asked.seed,
            "budget": asked.seconds,
            "cell_timeout": _CELL_TIMEOUT,
            "backends": list(asked.backends) or None,
            "folders": list(asked.folders),
            "dtypes": list(asked.dtypes) or None,
            "gpu": dict(asked.gpu) if asked.gpu else None,
            "devices": list(devices) or None,
            "scratch": str(scratch),
        },
        folder=folder,
    )
    under_load: GpuStates | None = None
    try:
        while running.alive() and time.monotonic() - started < limit:
            done, all_of_them, at = _progress(answers)
            say(f"kernels: {done} of {all_of_them}{at}" if all_of_them else "kernels: importing torch")
            if done and under_load is None and not (answers / "compiled.jsonl").exists():
                under_load = GpuStates(environment, folder=folder, name="gpus-under-load")
            time.sleep(0.05)
    finally:
        completed = running.wait(1.0 if (answers / "done.json").exists() else 0.0)
        if under_load is not None:
            states["load"] = under_load.answer(5.0)
        states["xids"] = watch.answer(5.0)
    answer = collate(answers, asked, completed, states)
    answer["seconds"] = round(time.monotonic() - started, 2)
    return answer


def _progress(answers: Path) -> tuple[int, int, str]:
    plan = read_answer(answers / "plan.json") or {}
    compiling = [line["begun"] for line in _lines(answers / "compiled.jsonl") if "begun" in line]
    if compiling:
        return len(compiling) - 1, len(plan["to_compile"]["backends"]), f" compiled ({compiling[-1]})"
    number = sum(len(one["cells"]) for one in (plan.get("plans") or {}).values())
    done, at = 0, " trials"
    for file in answers.glob("cells-*.jsonl"):
        lines = _lines(file)
        done += sum("cell" in line for line in lines)
        begun = [line["begun"] for line in lines if "begun" in line]
        if begun:
            at = f" trials ({begun[-1]['backend']})"
    return done, number, at


def collate(answers: Path, asked: Asked, completed: Completed, states: Mapping[str, Any]) -> dict[str, Any]:
    """One answer of all that lies in the folder."""
    plan = read_answer(answers / "plan.json")
    answer: dict[str, Any] = {
        "format": FORMAT,
        "mode": asked.mode,
        "seed": asked.seed,
        "budget": asked.seconds,
        "backends_asked": list(asked.backends),
        "dtypes_asked": list(asked.dtypes),
        "ran": False,
        "why_not": None,
        "gpu_planned_for": None,
        "gpus": [],
        "backends": [],
        "cells": [],
        "would_run": [],
        "not_offered": [],
        "left_out": {},
        "not_reached": 0,
    }
    if plan is None:
        answer["why_not"] = f"the trials {completed.ended()} before it was known what would run{_last_words(completed)}"
        answer["gpu_planned_for"] = asked.gpu and dict(asked.gpu)
        return answer
    if "plans" not in plan:
        answer["why_not"] = plan.get("error") or plan.get("no_gpu")
        answer["gpu_planned_for"] = asked.gpu and dict(asked.gpu)
        answer["backends"] = plan["backends"]
        answer["would_run"] = plan.get("cells", [])
        answer["not_offered"] = _grouped({"": plan.get("not_offered", [])})
        answer["left_out"] = plan.get("left_out", {})
        compiled = compiled_kernels.collate(plan, _lines(answers / "compiled.jsonl"), completed.ended())
        return answer if compiled is None else {**answer, "compiled": compiled}
    plans: dict[str, Any] = plan["plans"]
    told = {str(one["index"]): one for one in (read_answer(answers / "gpus.json") or {}).get("gpus", [])}
    for name, gpu in told.items():
        files = [answers / f"cells-{name}.jsonl", *sorted(answers.glob(f"cells-{name}.*.jsonl"))]
        each = [_lines(file) for file in files]
        lines = [line for one in each for line in one]
        planned = name in plans and bool(plans[name]["cells"])
        silent = f"the trials {completed.ended()} before they came to it" if planned and not lines else None
        answer["gpus"].append(_gpu(name, gpu, lines, states, silent))
        cells = [cell for one in each for cell in _cells(name, one, answer["gpus"][-1]["xids"])]
        answer["cells"] += cells
        answer["not_reached"] += len(plans[name]["cells"]) - len(cells) if name in plans else 0
    answer["ran"] = bool(answer["cells"])
    answer["backends"] = next((one["backends"] for one in plans.values()), [])
    answer["left_out"] = next((one["left_out"] for one in plans.values()), {})
    if not answer["ran"]:
        answer["why_not"] = _why_nothing_ran(answer, plans, completed)
    answer["not_offered"] = _grouped({name: one["not_offered"] for name, one in plans.items()})
    return answer


def _last_words(completed: Completed) -> str:
    lines = completed.stderr.strip().splitlines()
    return f" ({lines[-1].strip()[:200]})" if lines else ""


def _why_nothing_ran(answer: Mapping[str, Any], plans: Mapping[str, Any], completed: Completed) -> str:
    stopped = [str(one["stopped"]) for one in answer["gpus"] if one["stopped"]]
    if stopped or any(one["cells"] for one in plans.values()):
        return "; ".join(stopped) or f"the trials {completed.ended()} before the first one"
    states = [f"{one['title']}: {one['state']}" for one in answer["backends"] if one["state"] != "runs"]
    return "nothing of what was asked for can be run here" + (f" ({'; '.join(states)})" if states else "")


def _gpu(
    name: str, gpu: Mapping[str, Any], lines: list[dict[str, Any]], states: Mapping[str, Any], silent: str | None
) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for line in lines:
        for key in ("ceiling", "memory", "stopped"):
            if key in line:
                merged[key] = line[key]
    stopped = gpu.get("error") or merged.get("stopped") or silent
    return {
        "index": name,
        "name": gpu.get("name"),
        "compute_capability": gpu.get("compute_capability"),
        "ceilings": merged.get("ceiling"),
        "memory": merged.get("memory"),
        "stopped": stopped,
        "before": _state(states.get("before"), gpu.get("uuid"), name),
        "load": _state(states.get("load"), gpu.get("uuid"), name),
        "xids": xids.of_gpu(states.get("xids") or _NOBODY, gpu.get("uuid"), name),
    }


def _state(states: Any, uuid: Any, name: str) -> Any:
    """NVML's of the same GPU: by UUID, for torch counts only what is visible to it."""
    for one in states or []:
        known = str(one.get("uuid") or "").removeprefix("GPU-")
        if (uuid and known == str(uuid).removeprefix("GPU-")) or (not uuid and str(one.get("index")) == name):
            return {key: value for key, value in one.items() if key != "uuid"}
    return None


def _cells(gpu: str, lines: list[dict[str, Any]], heard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The trials of one child; with those that did not end well the Xids that the GPU told while they ran."""
    begun: dict[str, float] = {
        json.dumps(line["begun"], sort_keys=True): line["at"] for line in lines if "begun" in line and "at" in line
    }
    cells = []
    for line in lines:
        if "cell" not in line:
            continue
        told = {key: value for key, value in line.items() if key not in ("cell", "context_lost", "at")}
        cell = {"gpu": gpu, **line["cell"], **told}
        since = begun.get(json.dumps(line["cell"], sort_keys=True))
        if cell["outcome"] not in ("right", "not offered") and since is not None and "at" in line:
            after = min((at for at in begun.values() if at > since), default=math.inf)
            numbers = xids.during(heard, since, line["at"], before=after)
            cell |= {"xids": numbers} if numbers else {}
        cells.append(cell)
    return cells


def _grouped(not_offered: Mapping[str, Iterable[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """By backend and reason: the same words for two hundred combinations are said once."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for gpu, cells in not_offered.items():
        for cell in cells:
            group = groups.setdefault(
                (cell["backend"], _SIZES.sub("[…]", cell["reason"])),
                {"backend": cell["backend"], "reason": cell["reason"], "gpus": [], "cells": 0}
                | {axis: [] for axis in ("dtypes", "head_dims", "forms", "directions")},
            )
            group["cells"] += 1
            for key, value in (
                ("gpus", gpu),
                ("dtypes", cell["dtype"]),
                ("head_dims", cell["head_dim"]),
                ("forms", cell["form"]),
                ("directions", cell["direction"]),
            ):
                if value not in group[key]:
                    group[key].append(value)
    return list(groups.values())


def _lines(file: Path) -> list[dict[str, Any]]:
    try:
        text = file.read_text(encoding="ascii")
    except OSError:
        return []
    found = []
    for line in text.split("\n")[:-1]:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
