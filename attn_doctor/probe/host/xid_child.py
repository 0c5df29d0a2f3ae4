"""Listens for the Xid events of every GPU during other work, and writes them to a file as they arrive. Runs in its own
process, because a stuck driver call cannot be interrupted otherwise, and NVML keeps no earlier events.

    python xid_child.py ANSWER.json STOP SECONDS

Ends when the file STOP exists, after SECONDS, or when its parent has ended. It waits without pause: for several events
without a waiting listener, NVML returns the last one's number for each
(https://docs.nvidia.com/deploy/nvml-api/group__nvmlEvents.html). It registers a listener, and changes nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from typing import Any

_SLICE_MS = 200


def main(file: str, stop: str, seconds: str) -> None:
    """Writes {"outcome": "listens" | "could not", "message", "gpus": [{index, uuid, why_not, seen}]}.

    seen: [{number, at}], at in seconds since the epoch.
    """
    sys.path.pop(0)  # this folder; its files must not be importable as top-level modules
    try:
        import pynvml
    except ImportError as error:
        _write(file, {"outcome": "could not", "message": f"nvidia-ml-py cannot be imported: {error}", "gpus": []})
        return
    listen(pynvml, file, stop, float(seconds))


def listen(pynvml: Any, file: str, stop: str, seconds: float) -> None:
    """Listens until one of the three conditions ends it."""
    answer: dict[str, Any] = {"outcome": "listens", "message": "", "gpus": []}
    parent, until, last = os.getppid(), time.monotonic() + seconds, False
    try:
        pynvml.nvmlInit()
        events = pynvml.nvmlEventSetCreate()
        by_handle = {}
        for index in range(pynvml.nvmlDeviceGetCount()):
            gpu: dict[str, Any] = {"index": index, "uuid": None, "why_not": None, "seen": []}
            answer["gpus"].append(gpu)
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                by_handle[_key(handle)] = gpu
                gpu["uuid"] = _text(pynvml.nvmlDeviceGetUUID(handle))
                pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
            except pynvml.NVMLError as error:
                gpu["why_not"] = str(error)  # the others still count
        _write(file, answer)
        while not last:
            # Once more after the end: an event may arrive late.
            last = os.path.exists(stop) or time.monotonic() > until or os.getppid() != parent  # noqa: PTH110
            while (event := _next(pynvml, events)) is not None:
                gpu = by_handle.get(_key(event.device)) or {"seen": []}
                gpu["seen"].append({"number": int(event.eventData), "at": round(time.time(), 3)})
                _write(file, answer)
    except (pynvml.NVMLError, AttributeError) as error:
        # For example "GPU is lost": earlier events still count.
        answer.update(outcome="could not", message=str(error))
    _write(file, answer)


def _next(pynvml: Any, events: Any) -> Any:
    try:
        event = pynvml.nvmlEventSetWait_v2(events, _SLICE_MS)
    except pynvml.NVMLError_Timeout:
        return None
    return event if event.eventType & pynvml.nvmlEventTypeXidCriticalError else None


def _key(handle: Any) -> Any:
    """Equal for two handles of one GPU: NVML returns pointers, each in a new wrapper."""
    try:
        return ctypes.cast(handle, ctypes.c_void_p).value
    except (TypeError, ctypes.ArgumentError):
        return handle


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _write(file: str, answer: dict[str, Any]) -> None:
    with open(file + ".part", "w") as handle:  # noqa: PTH123
        json.dump(answer, handle)
    os.replace(file + ".part", file)  # noqa: PTH105


if __name__ == "__main__":
    main(*sys.argv[1:4])
