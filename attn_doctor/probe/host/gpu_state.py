"""The state of each GPU from NVML: clocks, throttling, power, memory errors, other processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_doctor.probe.host.gpus import start_nvml


class GpuStates:
    """A query that starts at once; call `answer` once."""

    def __init__(self, environment: Mapping[str, str], *, folder: Path, name: str) -> None:
        self._file = folder / f"{name}.json"
        self._running = start_nvml(self._file, environment, folder=folder, name=name)

    def answer(self, timeout: float) -> list[dict[str, Any]]:
        """A dict for each GPU; empty when NVML does not answer."""
        self._running.wait(timeout)
        try:
            answer = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return []
        gpus = answer.get("gpus", [])
        return gpus if isinstance(gpus, list) else []
