"""`with attn_doctor.watch(): model(x)`: reports broken attention calls inside on stderr, with the cause.

Runs in the program's own process: nothing is redirected or run twice, and nothing is raised.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")

_PATIENT = "_attn_doctor_patient"


class Watching:
    """Single use, one thread. `results` keeps the reported results, in the tracer's own format (trace/1)."""

    def __init__(self, *, enabled: bool = True, all_ranks: bool = False) -> None:
        self._options = {"enabled": enabled, "all_ranks": all_ranks}
        self._on = enabled and (all_ranks or rank() == 0)
        self._watch: Any = None
        self.results: list[Mapping[str, Any]] = []
        self.trouble: str | None = None
        """Why nothing was recorded, or the error during recording; None otherwise."""

    def __call__(self, function: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
        """`@attn_doctor.watch()` on a function: each call of it is watched anew."""

        @functools.wraps(function)
        def watched(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
            with Watching(**self._options):
                return function(*args, **kwargs)

        return watched

    def __enter__(self) -> Watching:
        if self._on:
            try:
                load_inside()
                from _attn_doctor_patient.trace.run.watch import Watch

                self._watch = Watch(self._tell).start()
                self.trouble = self._watch.trouble
            except Exception:  # the program must run as without attn-doctor
                self.trouble = traceback.format_exc()
            if self.trouble:
                say(f"attn-doctor: nothing is watched: {self.trouble.strip().splitlines()[-1]}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._watch.stop(error)
            self.trouble = self.trouble or self._watch.trouble

    def _tell(self, answer: Mapping[str, Any]) -> None:
        self.results.append(answer)
        # Only now: a program in which nothing is broken never loads a terminal library.
        from attn_doctor.formats import trace_v1
        from attn_doctor.report.terminal import trace as page
        from attn_doctor.report.terminal.console import ReportConsole

        console = ReportConsole(sys.stderr)
        page.write(trace_v1.read(answer), console, verbose=False)


def rank() -> int:
    """This process's number among those that train together; 0 alone."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    # Launchers set it before torch.distributed is initialized: torchrun, Slurm, Open MPI.
    for variable in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        value = os.environ.get(variable, "")
        if value.isdigit():
            return int(value)
    return 0


def load_inside() -> None:
    """The scripts of patient/ under the private name that they have everywhere: their folders are called `trace`…"""
    if _PATIENT in sys.modules:
        return
    folder = Path(__file__).resolve().parent / "patient"
    spec = importlib.util.spec_from_file_location(
        _PATIENT, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[_PATIENT] = package
    spec.loader.exec_module(package)


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
