"""The CUDA toolkit that would build extensions here, and the release of its nvcc."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from attn_doctor.machine.process import Running
from attn_doctor.machine.which import which
from attn_doctor.model.facts import Fact
from attn_doctor.probe.fact_notes import FactNotes


def start(environment: Mapping[str, str], *, folder: Path, root: Path = Path("/")) -> Toolkit:
    """Finds the CUDA toolkit as torch's extension builder does, and starts its nvcc."""
    return Toolkit(environment, folder=folder, root=root)


class Toolkit:
    """The CUDA toolkit that would build extensions here. Call `facts` once."""

    def __init__(self, environment: Mapping[str, str], *, folder: Path, root: Path) -> None:
        self._how = "CUDA_HOME, CUDA_PATH, nvcc on PATH, /usr/local/cuda"
        self.home = self._home(environment, root)
        self.nvcc = self.home / "bin" / "nvcc" if self.home else None
        self._running: Running | None = None
        if self.nvcc and os.access(self.nvcc, os.X_OK):
            with contextlib.suppress(Exception):
                self._running = Running([str(self.nvcc), "--version"], folder=folder, name="nvcc")

    @staticmethod
    def _home(environment: Mapping[str, str], root: Path) -> Path | None:
        for variable in ("CUDA_HOME", "CUDA_PATH"):
            if environment.get(variable):
                return Path(environment[variable]).absolute()
        nvcc = which("nvcc", path=environment.get("PATH"))
        if nvcc:
            # A distribution's /usr/bin/nvcc may be a link or a wrapper: the toolkit is the folder of the real one.
            return Path(nvcc).resolve().parent.parent
        usual = root / "usr/local/cuda"
        return usual if usual.is_dir() else None

    def end(self) -> None:
        """Ends nvcc early."""
        if self._running is not None:
            self._running.end()

    def facts(self, timeout: float) -> tuple[Fact, ...]:
        """Waits for nvcc at most `timeout` seconds and returns the facts."""
        notes = FactNotes()
        notes.known_or_absent("cuda.home", str(self.home) if self.home else None, self._how)
        if self._running is None:
            reason = f"no nvcc in {self.home}/bin" if self.home else "no CUDA toolkit"
            notes.absent("cuda.nvcc", self._how, reason)
            notes.absent("cuda.nvcc_path", self._how, reason)
            return notes.facts()
        completed = self._running.wait(timeout)
        notes.known("cuda.nvcc_path", str(self.nvcc), self._how)
        match = re.search(r"release (\d+\.\d+)(?:, V([\d.]+))?", completed.stdout)
        if match:
            notes.known("cuda.nvcc", match[2] or match[1], f"{self.nvcc} --version")
        else:
            notes.unknown("cuda.nvcc", f"{self.nvcc} --version", f"nvcc {completed.ended()} and named no release")
        return notes.facts()
