"""The interpreter under examination. The same `Target` is used to probe, plan, apply and verify."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_doctor.errors import TargetUnusable
from attn_doctor.machine.candidates import Candidates, candidates, holds_torch, same_environment
from attn_doctor.machine.process import Completed, Running
from attn_doctor.machine.scratch import absolute_search_paths, check_room, patient_environment
from attn_doctor.quick_dataclasses import dataclass

PATIENT = Path(__file__).resolve().parent.parent / "patient"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An interpreter that was started and answered."""

    python: Path
    """Its own sys.executable, with shims and links resolved."""
    because: str
    environment_kind: str
    """venv, conda, uv or system."""
    told: Mapping[str, Any]
    """Its description of itself; see patient/interpreter.py."""
    named: bool = False
    """Named on the command line; a later command for the same target has to name it again."""
    dead: str = ""
    """The active environment, when it contains no Python; else empty."""
    others: tuple[str, ...] = ()
    """Other candidates that contain torch."""
    in_place_of: tuple[tuple[str, str], ...] = ()
    """(folder, folder that stands for it) on the path of what is started here: an environment that is to be tried out
    and has no interpreter of its own.
    """

    @property
    def version(self) -> str:
        """As in sys.version_info: `3.11.7`."""
        return str(self.told["version"])

    @property
    def prefix(self) -> Path:
        """Folder of the environment."""
        return Path(self.told["prefix"])

    @property
    def externally_managed(self) -> bool:
        """True when the system's package manager owns it (PEP 668); false for a virtual environment on that system."""
        # The marker file is in the standard library, which a virtual environment shares with its base.
        return bool(self.told.get("externally_managed")) and self.told.get("prefix") == self.told.get("base_prefix")

    @property
    def search_path(self) -> tuple[Path, ...]:
        """Its sys.path, existing folders only."""
        return tuple(Path(entry) for entry in self.told["sys_path"] if entry and Path(entry).is_dir())

    def start_in_patient(
        self, task: str, request: Mapping[str, Any], *, folder: Path, environment: Mapping[str, str] | None = None
    ) -> tuple[Running, Path]:
        """Starts a script of patient/ in this interpreter; returns the process and the folder for its answers."""
        standing_in = {"in_place_of": [list(pair) for pair in self.in_place_of]} if self.in_place_of else {}
        return _start_in_patient(self.python, task, {**request, **standing_in}, folder=folder, environment=environment)


class TargetQuestion:
    """Chooses the interpreter and starts it to describe itself. Call `answer` once; other work can be done meanwhile.

    `isolated`: the interpreter is started without its environment, so that no code of the environment runs; its startup
    files are read as data (patient/startup.py). Raises BadInput when the interpreter named does not exist,
    TargetUnusable when it does not start.
    """

    def __init__(self, option: str | None, *, as_module: bool, folder: Path, isolated: bool = False) -> None:
        self._found = candidates(option, as_module=as_module)
        # The real HOME, because version-manager shims find their Python below it. Afterwards sys.executable is the real
        # Python.
        environment = {**absolute_search_paths(os.environ), "PYTHONDONTWRITEBYTECODE": "1"}
        request: dict[str, Any] = {"isolated": isolated}
        if isolated:
            request["pythonpath"] = environment.pop("PYTHONPATH", "")
            environment.pop("PYTHONINSPECT", None)
        self._running, self._answers = _start_in_patient(
            self._found.first.python,
            "interpreter",
            request,
            folder=folder,
            environment=environment,
            options=("-S",) if isolated else (),
            start_in=self._found.first.folder,
        )

    def end(self) -> None:
        """Ends the process early."""
        self._running.end()

    def answer(self, timeout: float) -> Target:
        """Waits for the description and returns the target.

        Raises TargetUnusable when the interpreter does not answer.
        """
        return _target(self._found, _told(self._found, self._running.wait(timeout), self._answers))


def examine_target(
    option: str | None, *, as_module: bool, folder: Path, timeout: float, isolated: bool = False
) -> Target:
    """Chooses the interpreter, starts it and returns the target."""
    return TargetQuestion(option, as_module=as_module, folder=folder, isolated=isolated).answer(timeout)


def _target(found: Candidates, told: dict[str, Any]) -> Target:
    own = Path(told["executable"] or found.first.python)
    others = tuple(
        str(choice.python)
        for choice in found.choices[1:]
        if not same_environment(choice.python, own) and holds_torch(choice.python)
    )
    return Target(
        python=own,
        because=found.because,
        named=found.first.named,
        dead="; ".join(found.dead),
        environment_kind=_environment_kind(told),
        told=told,
        others=others,
    )


def _environment_kind(told: Mapping[str, Any]) -> str:
    if told.get("conda"):
        return "conda"
    if told["prefix"] == told["base_prefix"]:
        return "system"
    return "uv" if told.get("uv") else "venv"


def _told(found: Candidates, completed: Completed, answers: Path) -> dict[str, Any]:
    try:
        told = json.loads((answers / "interpreter.json").read_text())
        if not isinstance(told, dict) or not isinstance(told.get("sys_path"), list):
            raise ValueError("not an answer")
    except (OSError, ValueError):
        check_room(answers)
        # Text that faulthandler appends before Python is initialized hides the line above it, which names the cause.
        said = completed.stderr.partition("\nCurrent thread 0x")[0] or completed.stderr
        last = said.strip().splitlines()[-3:]
        home = os.environ.get("PYTHONHOME")
        other = f"PYTHONHOME is {home}, which may belong to another Python: unset it. " if home else ""
        raise TargetUnusable(
            f"the interpreter {completed.ended()} and told nothing about itself",
            about="\n".join([f"interpreter: {found.first.python} ({found.because})", *(f"  {line}" for line in last)]),
            hint=f"{other}Name another with --python; it needs Python 3.9 or later.",
        ) from None
    return told


def read_answer(file: Path) -> dict[str, Any] | None:
    """The answer file of a script of patient/; None when it is missing or not a JSON object."""
    try:
        value = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _start_in_patient(
    python: Path,
    task: str,
    request: Mapping[str, Any],
    *,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    options: tuple[str, ...] = (),
    start_in: Path | None = None,
) -> tuple[Running, Path]:
    answers = folder / f"{task}-answers"
    answers.mkdir()
    asked = folder / f"{task}-request.json"
    asked.write_text(json.dumps({"task": task, **request}))
    running = Running(
        [str(python), "-B", *options, str(PATIENT / "bootstrap.py"), str(asked), str(answers)],
        folder=folder,
        name=task,
        start_in=start_in,
        of_patient="-S" not in options,
        environment=patient_environment(folder) if environment is None else environment,
    )
    return running, answers
