"""The state of each GPU from NVML: clocks, throttling, power, memory errors, other processes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_doctor.machine.process import Running


class GpuStates:
    """A query that starts at once; call `answer` once."""

    def __init__(self, environment: Mapping[str, str], *, folder: Path, name: str) -> None:
        self._file = folder / f"{name}.json"
        script = Path(__file__).with_name("nvml_child.py")
        self._running = Running(
            [sys.executable, "-B", str(script), str(self._file), "state"],
            folder=folder,
            name=name,
            environment=environment,
        )

    def answer(self, timeout: float) -> list[dict[str, Any]]:
        """A dict for each GPU; empty when NVML does not answer."""
        self._running.wait(timeout)
        try:
            answer = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return []
        gpus = answer.get("gpus", [])
        return gpus if isinstance(gpus, list) else []
