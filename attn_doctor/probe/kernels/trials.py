"""Runs the trials of attention kernels (patient/kernels/) and records the results (model/kernels.py).

The record has every trial, the calls that contracts exclude with their reasons, and the trials that were not reached;
kernel_facts.py makes facts of it. Without a GPU it has the planned trials and the results of compiling them.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attn_doctor.formats import kernels_v1, records
from attn_doctor.machine.process import Completed
from attn_doctor.machine.target import Target, read_answer
from attn_doctor.model.gpu_state import GpuState, PlannedGpu, Xids
from attn_doctor.model.kernels import (
    NOT_OFFERED,
    RIGHT,
    Backend,
    KernelTrials,
    Memory,
    NotOffered,
    PlannedTrial,
    TestedGpu,
    Trial,
)
from attn_doctor.probe.host import xids
from attn_doctor.probe.host.gpu_state import GpuStates
from attn_doctor.probe.host.xids import XidWatch
from attn_doctor.probe.trace import compiled_kernels
from attn_doctor.quick_dataclasses import asdict, dataclass, replace

#: Seconds for each GPU, from the import of torch on.
BUDGETS = {"quick": 20.0, "full": 90.0, "replay": 90.0}
_CELL_TIMEOUT = 10.0
#: Sizes in torch's refusals, removed so that equal reasons are equal texts.
_SIZES = re.compile(r"\[[\d, ]+\]")
_NOBODY = {"outcome": "could not", "message": "Xid listener did not start", "gpus": []}
_GRACE = 120.0  # a compiled trial that hangs is ended by its own alarm after 60 s


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """Options of the trials."""

    mode: str
    seed: int
    budget: float | None = None
    backends: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders in which the user's own functions are looked for, after everything else on sys.path."""
    dtypes: tuple[str, ...] = ()
    replay: tuple[Mapping[str, Any], ...] = ()
    """A model's recorded calls (formats/calls_v1.py), which are tried in place of the usual trials."""
    gpu: PlannedGpu | None = None
    """The GPU to plan for, when there is none."""

    @property
    def seconds(self) -> float:
        return self.budget if self.budget is not None else BUDGETS[self.mode]


def run(
    target: Target,
    asked: TrialRequest,
    *,
    timeout: float,
    folder: Path,
    environment: Mapping[str, str],
    say: Callable[[str], None] = lambda _: None,
    devices: tuple[str, ...] = (),
) -> KernelTrials:
    """Runs the trials and returns the results.

    `timeout`: seconds for importing torch. `devices`: replaces the GPUs that torch sees.
    """
    scratch = folder / "kernels-scratch"
    scratch.mkdir()
    started = time.monotonic()
    limit = timeout + asked.seconds + _GRACE
    before = GpuStates(environment, folder=folder, name="gpus-before")
    watch = XidWatch(environment, folder=folder, seconds=limit + 60.0)
    states: dict[str, Any] = {"before": before.answer(10.0)}
    watch.ready(5.0)
    running, answers = target.start_in_patient(
        "kernels.run",
        {
            "mode": asked.mode,
            "seed": asked.seed,
            "budget": asked.seconds,
            "cell_timeout": _CELL_TIMEOUT,
            "backends": list(asked.backends) or None,
            "folders": list(asked.folders),
            "dtypes": list(asked.dtypes) or None,
            "calls": list(asked.replay) or None,
            "gpu": asdict(asked.gpu) if asked.gpu else None,
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
    trials = collate(answers, asked, completed, states)
    return replace(trials, seconds=round(time.monotonic() - started, 2))


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


def collate(answers: Path, asked: TrialRequest, completed: Completed, states: Mapping[str, Any]) -> KernelTrials:
    """Combines all answers in the folder."""
    plan = read_answer(answers / "plan.json")
    trials = KernelTrials(
        mode=asked.mode,
        seed=asked.seed,
        budget=asked.seconds,
        backends_asked=asked.backends,
        dtypes_asked=asked.dtypes,
        ran=False,
        gpus=(),
        backends=(),
        cells=(),
        would_run=(),
        not_offered=(),
        not_reached=0,
    )
    if plan is None:
        ended = f"the trials {completed.ended()} before it was known what would run{_last_words(completed)}"
        return replace(trials, why_not=ended, gpu_planned_for=asked.gpu)
    if "plans" not in plan:
        return replace(
            trials,
            why_not=plan.get("error") or plan.get("no_gpu"),
            gpu_planned_for=asked.gpu,
            backends=_backends(plan),
            would_run=tuple(records.from_json(PlannedTrial, one) for one in plan.get("cells", ())),
            not_offered=_grouped({"": plan.get("not_offered", [])}),
            left_out=plan.get("left_out", {}),
            compiled=compiled_kernels.collate(plan, _lines(answers / "compiled.jsonl"), completed.ended()),
        )
    plans: dict[str, Any] = plan["plans"]
    told = {str(one["index"]): one for one in (read_answer(answers / "gpus.json") or {}).get("gpus", [])}
    gpus: list[TestedGpu] = []
    cells: list[Trial] = []
    not_reached = 0
    for name, device in told.items():
        files = [answers / f"cells-{name}.jsonl", *sorted(answers.glob(f"cells-{name}.*.jsonl"))]
        each = [_lines(file) for file in files]
        lines = [line for one in each for line in one]
        planned = name in plans and bool(plans[name]["cells"])
        silent = f"the trials {completed.ended()} before they came to it" if planned and not lines else None
        gpus.append(_gpu(name, device, lines, states, silent))
        timed = {_key(line["timed"]): line for line in lines if "timed" in line}
        own = [trial for one in each for trial in _trials(name, one, gpus[-1].heard, timed)]
        cells += own
        not_reached += len(plans[name]["cells"]) - len(own) if name in plans else 0
    first: Mapping[str, Any] = next(iter(plans.values()), {"backends": [], "left_out": {}})
    trials = replace(
        trials,
        ran=bool(cells),
        gpus=tuple(gpus),
        cells=tuple(cells),
        not_reached=not_reached,
        backends=_backends(first),
        left_out=first["left_out"],
        not_offered=_grouped({name: one["not_offered"] for name, one in plans.items()}),
    )
    return trials if trials.ran else replace(trials, why_not=_why_nothing_ran(trials, plans, completed))


def _backends(plan: Mapping[str, Any]) -> tuple[Backend, ...]:
    return tuple(records.from_json(Backend, one) for one in plan["backends"])


def _last_words(completed: Completed) -> str:
    lines = completed.stderr.strip().splitlines()
    return f" ({lines[-1].strip()[:200]})" if lines else ""


def _why_nothing_ran(trials: KernelTrials, plans: Mapping[str, Any], completed: Completed) -> str:
    stopped = [one.stopped for one in trials.gpus if one.stopped]
    if stopped or any(one["cells"] for one in plans.values()):
        return "; ".join(stopped) or f"the trials {completed.ended()} before the first one"
    states = [f"{one.title}: {one.state}" for one in trials.backends if one.state != "runs"]
    return "nothing of what was asked for can be run here" + (f" ({'; '.join(states)})" if states else "")


def _gpu(
    name: str, device: Mapping[str, Any], lines: list[dict[str, Any]], states: Mapping[str, Any], silent: str | None
) -> TestedGpu:
    merged = {key: line[key] for line in lines for key in ("ceiling", "memory", "stopped") if key in line}
    uuid, memory = device.get("uuid"), merged.get("memory")
    return TestedGpu(
        index=name,
        name=device.get("name"),
        compute_capability=device.get("compute_capability"),
        ceilings=merged.get("ceiling"),
        memory=memory and records.from_json(Memory, memory),
        stopped=device.get("error") or merged.get("stopped") or silent,
        before=_state(states.get("before"), uuid, name),
        load=_state(states.get("load"), uuid, name),
        xids=xids.of_gpu(states.get("xids") or _NOBODY, uuid, name),
    )


def _state(states: Any, uuid: Any, name: str) -> GpuState | None:
    """NVML's state of the same GPU, found by UUID, because torch counts only visible GPUs."""
    for one in states or []:
        known = str(one.get("uuid") or "").removeprefix("GPU-")
        if (uuid and known == str(uuid).removeprefix("GPU-")) or (not uuid and str(one.get("index")) == name):
            return records.from_json(GpuState, one)
    return None


def _key(cell: Mapping[str, Any]) -> str:
    return json.dumps(cell, sort_keys=True)


def _trials(gpu: str, lines: list[dict[str, Any]], heard: Xids, timed: Mapping[str, Mapping[str, Any]]) -> list[Trial]:
    """The trials of one child, with their times; failed ones with the Xids that the GPU reported during them."""
    begun = {_key(line["begun"]): line["at"] for line in lines if "begun" in line and "at" in line}
    found = []
    for line in lines:
        if "cell" not in line:
            continue
        later = timed.get(_key(line["cell"]), {})
        times = {name: value for name, value in later.items() if name not in ("at", "timed")}
        trial = kernels_v1.trial({"gpu": gpu, **line["cell"], **line, **times})
        since = begun.get(_key(line["cell"]))
        if trial.outcome not in (RIGHT, NOT_OFFERED) and since is not None and "at" in line:
            after = min((at for at in begun.values() if at > since), default=math.inf)
            numbers = xids.during(heard, since, line["at"], before=after)
            trial = replace(trial, xids=numbers or None)
        found.append(trial)
    return found


def _grouped(not_offered: Mapping[str, Iterable[Mapping[str, Any]]]) -> tuple[NotOffered, ...]:
    """Grouped by backend and reason: one reason for two hundred combinations appears once."""
    groups: dict[tuple[str, str], list[tuple[str, Mapping[str, Any]]]] = {}
    for gpu, cells in not_offered.items():
        for cell in cells:
            groups.setdefault((cell["backend"], _SIZES.sub("[…]", cell["reason"])), []).append((gpu, cell))
    return tuple(
        NotOffered(
            backend=backend,
            reason=group[0][1]["reason"],
            gpus=tuple(dict.fromkeys(gpu for gpu, _ in group)),
            cells=len(group),
            dtypes=tuple(dict.fromkeys(cell["dtype"] for _, cell in group)),
            head_dims=tuple(dict.fromkeys(cell["head_dim"] for _, cell in group)),
            forms=tuple(dict.fromkeys(cell["form"] for _, cell in group)),
            directions=tuple(dict.fromkeys(cell["direction"] for _, cell in group)),
        )
        for (backend, _), group in groups.items()
    )


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
