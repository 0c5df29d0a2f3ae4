"""Xid events while kernels run: a child that listens through NVML, and the facts of what it heard.

An Xid is the driver's number for something that went wrong on a GPU. What each number means is data
(recipes/xids.toml), handed in; not here.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from attn_doctor.machine.process import Running
from attn_doctor.model.facts import Fact
from attn_doctor.probe.noting import Notes

_HOW = "Xid events, through NVML while the kernels ran"
_NOBODY: Mapping[str, Any] = {"why_not": "nobody listened", "seen": []}
#: An event is told some moments after the trial that it belongs to.
_LATE = 1.0


class XidWatch:
    """Listens from the start; `answer` once."""

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
        """Waits until it listens: events of before are kept by nobody."""
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


def of_gpu(heard: Mapping[str, Any], uuid: Any, index: str) -> dict[str, Any]:
    """What was heard of one GPU: {"why_not": None or why nobody could listen, "seen": [{"number", "at"}]}."""
    why_not = heard["message"] if heard["outcome"] != "listens" else None
    for gpu in heard["gpus"]:
        known = str(gpu["uuid"] or "").removeprefix("GPU-")
        if (uuid and known == str(uuid).removeprefix("GPU-")) or (not uuid and str(gpu["index"]) == index):
            return {"why_not": why_not or gpu["why_not"], "seen": list(gpu["seen"])}
    return {"why_not": why_not or "NVML does not know this GPU", "seen": []}


def during(heard: Mapping[str, Any], begun: float, ended: float, *, before: float) -> list[int]:
    """Numbers heard of a GPU while one trial ran and a moment longer, `before` the next one began."""
    until = min(ended + _LATE, before)
    return list(dict.fromkeys(one["number"] for one in heard["seen"] if begun <= one["at"] < until))


def meanings(answer: Mapping[str, Any], table: Mapping[int, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What `table` says of the numbers that were heard: kept with the answer, so that it explains itself."""
    numbers = {one["number"] for gpu in answer["gpus"] for one in (gpu.get("xids") or _NOBODY)["seen"]}
    wanted = ("meaning", "blames", "keep_out", "action")
    return {str(number): {key: table[number][key] for key in wanted} for number in sorted(numbers & table.keys())}


def in_words(numbers: Iterable[int], answer: Mapping[str, Any]) -> tuple[str, ...]:
    """`Xid 31 (GPU memory page fault)` for each."""
    told = ((number, answer.get("xid_meanings", {}).get(str(number))) for number in numbers)
    return tuple(f"Xid {number} ({one['meaning']})" if one else f"Xid {number}" for number, one in told)


def of_state(gpu: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """What a GPU told, in a few words; why that is not known where nobody could listen."""
    heard = gpu.get("xids") or _NOBODY
    words = in_words(dict.fromkeys(one["number"] for one in heard["seen"]), answer)
    if words:
        return ", ".join(words)
    return f"Xids not known ({heard['why_not']})" if heard["why_not"] else "no Xid"


def facts(answer: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Each number that a GPU told, once, with what it means."""
    notes = Notes()
    counted: dict[tuple[str, int], int] = {}
    silent = []
    for gpu in answer["gpus"]:
        heard = gpu.get("xids") or _NOBODY
        if heard["why_not"]:
            silent.append(f"GPU {gpu['index']}: {heard['why_not']}")
        for one in heard["seen"]:
            counted[gpu["index"], one["number"]] = counted.get((gpu["index"], one["number"]), 0) + 1
    if silent or not answer["gpus"]:
        why = answer["why_not"] or "there is no GPU"
        notes.unknown("listed.xid", _HOW, "; ".join(dict.fromkeys(silent)) or f"no kernel was run: {why}")
    else:
        notes.known("listed.xid", len(counted), _HOW)
    for (index, number), times in counted.items():
        own = f"xid.gpu{index}-{number}."
        known = answer.get("xid_meanings", {}).get(str(number), {})
        notes.known(own + "gpu", str(index), _HOW)
        notes.known(own + "number", number, _HOW)
        notes.known(own + "times", times, _HOW)
        for name in ("meaning", "blames", "action", "keep_out"):
            notes.known_or_absent(own + name, known.get(name), _HOW, "not among the common ones")
    return notes.facts()
