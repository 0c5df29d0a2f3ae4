"""Xid events while kernels run: a child process that listens through NVML, and the facts from its events.

An Xid is the driver's number for an error of a GPU. The meanings of the numbers (recipes/xids.toml) are passed in.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_doctor.formats import records
from attn_doctor.machine.process import Running
from attn_doctor.model.facts import Fact
from attn_doctor.model.gpu_state import XidEvent, XidMeaning, Xids
from attn_doctor.model.kernels import KernelTrials
from attn_doctor.probe.fact_notes import FactNotes

_HOW = "Xid events, through NVML while the kernels ran"
#: Seconds by which an event may arrive after its trial.
_LATE = 1.0


class XidWatch:
    """Starts to listen at once; call `answer` once."""

    def __init__(self, environment: Mapping[str, str], *, folder: Path, seconds: float) -> None:
        self._file, self._stop = folder / "xids.json", folder / "xids.stop"
        script = Path(__file__).with_name("xid_child.py")
        self._running = Running(
            [sys.executable, "-B", str(script), str(self._file), str(self._stop), f"{seconds:g}"],
            folder=folder,
            name="xids",
            environment=environment,
        )
        self._late = ""

    def ready(self, timeout: float) -> None:
        """Waits until the listener runs, since earlier events are lost."""
        until = time.monotonic() + timeout
        while not self._file.exists() and self._running.alive():
            if time.monotonic() > until:
                self._late = f"NVML did not register a listener within {timeout:g} s"
                return
            time.sleep(0.02)

    def answer(self, timeout: float) -> dict[str, Any]:
        """{"outcome", "message", "gpus"}, as xid_child.py writes it."""
        self._stop.touch()
        completed = self._running.wait(timeout)
        try:
            told = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {"outcome": "could not", "message": self._late or f"the listener {completed.ended()}", "gpus": []}
        if self._late and told["outcome"] == "listens":
            told.update(outcome="could not", message=self._late)
        elif completed.timed_out:
            told.update(outcome="could not", message=f"the listener {completed.ended()}")
        return dict(told)


def of_gpu(heard: Mapping[str, Any], uuid: Any, index: str) -> Xids:
    """The Xids of one GPU; `heard` is xid_child.py's answer."""
    why_not = heard["message"] if heard["outcome"] != "listens" else None
    for gpu in heard["gpus"]:
        known = str(gpu["uuid"] or "").removeprefix("GPU-")
        if (uuid and known == str(uuid).removeprefix("GPU-")) or (not uuid and str(gpu["index"]) == index):
            seen = tuple(XidEvent(number=one["number"], at=one["at"]) for one in gpu["seen"])
            return Xids(why_not=why_not or gpu["why_not"], seen=seen)
    return Xids(why_not=why_not or "NVML does not know this GPU")


def during(heard: Xids, begun: float, ended: float, *, before: float) -> tuple[int, ...]:
    """The numbers from one GPU during one trial and shortly afterwards, `before` the next trial began."""
    until = min(ended + _LATE, before)
    return tuple(dict.fromkeys(one.number for one in heard.seen if begun <= one.at < until))


def meanings(trials: KernelTrials, table: Mapping[int, Mapping[str, Any]]) -> dict[str, XidMeaning]:
    """The meanings from `table` of the numbers received; stored with the trials, so that a report is complete."""
    numbers = {number for gpu in trials.gpus for number in gpu.heard.numbers}
    return {str(number): records.from_json(XidMeaning, table[number]) for number in sorted(numbers & table.keys())}


def facts(trials: KernelTrials) -> tuple[Fact, ...]:
    """Facts about each Xid number of a GPU, once each, with its meaning."""
    notes = FactNotes()
    counted: dict[tuple[str, int], int] = {}
    silent = []
    for gpu in trials.gpus:
        if gpu.heard.why_not:
            silent.append(f"GPU {gpu.index}: {gpu.heard.why_not}")
        for one in gpu.heard.seen:
            counted[gpu.index, one.number] = counted.get((gpu.index, one.number), 0) + 1
    if silent or not trials.gpus:
        why = trials.why_not or "there is no GPU"
        notes.unknown("listed.xid", _HOW, "; ".join(dict.fromkeys(silent)) or f"no kernel was run: {why}")
    else:
        notes.known("listed.xid", len(counted), _HOW)
    for (index, number), times in counted.items():
        own = f"xid.gpu{index}-{number}."
        notes.known(own + "gpu", index, _HOW)
        notes.known(own + "number", number, _HOW)
        notes.known(own + "times", times, _HOW)
        known = (trials.xid_meanings or {}).get(str(number))
        for name in ("meaning", "blames", "action", "keep_out"):
            value = getattr(known, name) if known else None
            notes.known_or_absent(own + name, value, _HOW, "not among the common ones")
    return notes.facts()
