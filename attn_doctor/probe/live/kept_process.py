"""A process of the patient in which torch is imported, and which waits for an examination after a change.

Importing torch takes longer than all the rest of an examination. The process may go on where it has touched nothing
that changes; it then takes another folder for its environment (patient/touched.py), and does again what the change may
alter.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_doctor.machine.process import Running
from attn_doctor.machine.target import Target, read_answer

#: Seconds that it has to end by itself.
_ENDING = 2.0


class KeptProcess:
    """At most one process; the examinations of one session take turns with it."""

    def __init__(self) -> None:
        self._running: Running | None = None
        self._answers = Path()
        self._later = Path()
        self._ended = False
        self._going_on: dict[str, Any] = {}

    @property
    def pid(self) -> int | None:
        """Its process id, or that of its guard."""
        return None if self._running is None else self._running.pid

    def start(self, target: Target, request: Mapping[str, Any], *, folder: Path) -> tuple[Running, Path]:
        """Starts an examination in it, or in a new process; returns the process and the folder for its answers."""
        if self._running is not None and self._going_on:
            answers = folder / "examine-answers"
            answers.mkdir()
            if self._send(json.dumps({**request, **self._going_on, "answers": str(answers)})):
                self._answers = answers
                return self._running, answers
            answers.rmdir()
        self._stop()
        if self._ended:
            return target.start_in_patient("examine", request, folder=folder)
        self._later = folder / "later"
        os.mkfifo(self._later, 0o600)
        self._running, self._answers = target.start_in_patient(
            "examine", {**request, "later": str(self._later)}, folder=folder
        )
        return self._running, self._answers

    def waits(self, answers: Path) -> bool:
        """True when it has given all these answers, and waits for what comes."""
        running = self._running
        return running is not None and answers == self._answers and (answers / "done.json").exists() and running.alive()

    def go_on(self, changed: frozenset[str], in_place_of: Mapping[str, str]) -> bool:
        """Lets the next examination be one of the folders that stand for those of the environment. False, and the
        process is ended, where it touched what changes.
        """
        done = (read_answer(self._answers / "done.json") or {}) if self.waits(self._answers) else {}
        if not done.get("touched") or not changed.isdisjoint(done["touched"]):
            self.end()
            return False
        self._going_on = {"changed": sorted(changed), "in_place_of": [list(pair) for pair in in_place_of.items()]}
        return True

    def end(self) -> None:
        """Ends it; whatever is examined from now on has a process of its own."""
        self._ended = True
        self._stop()

    def _stop(self) -> None:
        running, self._going_on = self._running, {}
        if running is None:
            return
        if self.waits(self._answers) and self._send(""):
            running.wait(_ENDING)  # by itself: a regular end of torch takes longer
        self._running = None
        running.end()

    def _send(self, text: str) -> bool:
        with contextlib.suppress(OSError):
            descriptor = os.open(self._later, os.O_WRONLY | os.O_NONBLOCK)  # refused where it does not wait
            os.set_blocking(descriptor, True)
            with os.fdopen(descriptor, "w") as stream:
                stream.write(text)
            return True
        return False
