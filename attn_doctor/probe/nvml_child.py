"""Asks NVML about every GPU and writes the answer to a file. Runs as a process of its own: a stuck driver call
cannot be interrupted in any other way.

    python nvml_child.py ANSWER.json
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def main(file: str) -> None:
    """Writes {"outcome": "ok" | "no library" | "error", ...}."""
    sys.path.pop(0)  # this folder, whose file names are no modules of the person's
    answer = _ask()
    with open(file + ".part", "w") as handle:  # noqa: PTH123
        json.dump(answer, handle)
    os.replace(file + ".part", file)  # noqa: PTH105


def _ask() -> dict[str, Any]:
    try:
        import pynvml
    except ImportError as error:
        return {"outcome": "error", "message": f"nvidia-ml-py cannot be imported: {error}"}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound as error:
        return {"outcome": "no library", "message": str(error)}
    except pynvml.NVMLError as error:
        return {"outcome": "error", "message": str(error)}
    try:
        return {
            "outcome": "ok",
            "driver": _text(pynvml.nvmlSystemGetDriverVersion()),
            "cuda": _or_none(pynvml, lambda: pynvml.nvmlSystemGetCudaDriverVersion_v2()),
            "gpus": [_gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())],
        }
    except pynvml.NVMLError as error:
        return {"outcome": "error", "message": str(error)}


def _gpu(pynvml: Any, index: int) -> dict[str, Any]:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        return {"index": index, "error": str(error)}  # a GPU that fell off the bus: the others still count

    def ask(call: Callable[[], Any]) -> Any:
        return _or_none(pynvml, call)

    capability = ask(lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle))
    memory = ask(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    mig = ask(lambda: pynvml.nvmlDeviceGetMigMode(handle)[0])
    return {
        "index": index,
        "name": _text(ask(lambda: pynvml.nvmlDeviceGetName(handle))),
        "uuid": _text(ask(lambda: pynvml.nvmlDeviceGetUUID(handle))),
        "compute_capability": f"{capability[0]}.{capability[1]}" if capability else None,
        "memory_mib": memory // 2**20 if memory else None,
        "mig": None if mig is None else "on" if mig else "off",
    }


def _or_none(pynvml: Any, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (pynvml.NVMLError, AttributeError):
        return None


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


if __name__ == "__main__":
    main(sys.argv[1])
