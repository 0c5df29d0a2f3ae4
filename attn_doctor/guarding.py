"""`attn_doctor.watch(every=100)`: examines the attention calls of one step in a hundred of a training run.

Runs in the program's own process. Nothing of ours is raised, but where the policy says "stop", and then by `step()`.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from attn_doctor.errors import AttentionTrouble, BadInput
from attn_doctor.watching import load_inside, rank, say

if TYPE_CHECKING:
    from attn_doctor.api import AnyPath, Examination

Policy = Literal["log", "stop"]
EVERY = 100


class Guarding:
    """Single use. `with guarding: …; guarding.step()`, or one of its callbacks."""

    def __init__(
        self,
        *,
        every: int = EVERY,
        rows: int = 4,
        policy: Policy = "log",
        report: AnyPath | None = None,
        enabled: bool = True,
        all_ranks: bool = False,
    ) -> None:
        if every < 1 or rows < 1 or policy not in ("log", "stop"):
            raise BadInput(
                "a guard cannot be had so",
                about=f"attn_doctor.watch(every={every}, rows={rows}, policy={policy!r})",
                hint='every and rows are 1 or more, policy is "log" or "stop".',
            )
        self._every, self._rows, self._policy = every, rows, policy
        self._report = None if report is None else Path(report)
        self._enabled, self._all_ranks = enabled, all_ranks
        self._guard: Any = None
        self._written = False
        self.told: list[str] = []
        """Each trouble in a line, as it was said on stderr."""
        self._trouble: str | None = None

    @property
    def trouble(self) -> str | None:
        """Why nothing is watched, or the last error of ours; None otherwise."""
        return self._trouble or (self._guard.trouble if self._guard is not None else None)

    def start(self) -> Guarding:
        """As entering it does. On other ranks than the first nothing happens."""
        if self._enabled and self._guard is None and (self._all_ranks or rank() == 0):
            try:
                load_inside()
                from _attn_doctor_patient.guard.guard import Guard

                self._guard = Guard(self._every, self._rows).start()
            except Exception:  # the program must run as without attn-doctor
                self._guard, self._trouble = None, traceback.format_exc()
                say(f"attn-doctor: nothing is watched: {self._trouble.strip().splitlines()[-1]}")
        return self

    def step(self) -> None:
        """Ends a step of training; one of every `every` is examined, the first one among them.

        Raises AttentionTrouble where something new was found and the policy is "stop".
        """
        if self._guard is not None:
            self._tell(self._guard.step(), raising=self._policy == "stop")

    def stop(self) -> None:
        """As leaving it does: takes the hooks away, and writes the report where one was asked for."""
        if self._guard is None or self._written:
            return
        self._written = True
        self._tell(self._guard.stop(), raising=False)
        if self._report is not None:
            try:
                self._report.write_text(json.dumps(self.report().to_json()))
            except Exception:  # the run is over and sound: a full disk must not spoil its exit status
                self._trouble = traceback.format_exc()
                say(f"attn-doctor: no report was written: {self._trouble.strip().splitlines()[-1]}")

    def _tell(self, lines: list[str], *, raising: bool) -> None:
        self.told += lines
        for line in lines:
            say(f"attn-doctor: {line}")
        if lines and raising:
            self.stop()
            raise AttentionTrouble(
                "attention goes wrong in this run",
                about="\n".join(lines),
                hint="guarding.report() says more. policy='log' lets the run go on.",
            )

    def __enter__(self) -> Guarding:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def answer(self) -> Mapping[str, Any] | None:
        """What was seen so far in the tracer's own format (trace/1); None where nothing is watched."""
        return None if self._guard is None else self._guard.answer()

    def report(self) -> Examination:
        """What was seen so far, judged: findings and attn-doctor/report/v1, as `trace` gives them.

        Raises BadInput where nothing was watched: switched off, another rank, or never started.
        """
        answer = self.answer()
        if answer is None:
            raise BadInput(
                "nothing was watched here",
                about=f"rank {rank()}",
                hint="A report is there on rank 0 (all_ranks=True: on each), after the guard has started.",
            )
        from attn_doctor.api import Examination
        from attn_doctor.machine import faults
        from attn_doctor.workflows.watched_run import watched_run

        with faults.collected():
            return Examination(watched_run(answer))

    def for_transformers(self) -> Any:
        """A callback for transformers' Trainer: `Trainer(…, callbacks=[guarding.for_transformers()])`."""
        load_inside()
        from _attn_doctor_patient.guard import callbacks

        return callbacks.for_transformers(self)

    def for_lightning(self) -> Any:
        """A callback for Lightning: `Trainer(callbacks=[guarding.for_lightning()])`."""
        load_inside()
        from _attn_doctor_patient.guard import callbacks

        return callbacks.for_lightning(self)
