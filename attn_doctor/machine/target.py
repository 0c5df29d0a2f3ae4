"""The interpreter under examination. One `Target` goes through probe, plan, apply and verify."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput, TargetUnusable
from attn_doctor.machine.files import expanded
from attn_doctor.machine.process import Completed, Running
from attn_doctor.machine.scratch import check_room, patient_environment

INSIDE = Path(__file__).resolve().parent.parent / "inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which interpreter was chosen, and why."""

    python: Path
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """An interpreter that answered."""

    python: Path
    """Its own sys.executable: shims and links are resolved by asking it."""
    because: str
    environment_kind: str
    """venv, conda, uv or system"""
    told: Mapping[str, Any]
    """Everything it told about itself; see inside/interpreter.py."""
    others: tuple[str, ...] = ()
    """Other candidates that hold torch."""

    @property
    def version(self) -> str:
        """As in sys.version_info: `3.11.7`."""
        return str(self.told["version"])

    @property
    def prefix(self) -> Path:
        """The environment's folder."""
        return Path(self.told["prefix"])

    @property
    def externally_managed(self) -> bool:
        """It belongs to the system's package manager (PEP 668); a virtual environment of such a system does not."""
        # The mark lies in the standard library, which a virtual environment shares with its base.
        return bool(self.told.get("externally_managed")) and self.told.get("prefix") == self.told.get("base_prefix")

    @property
    def search_path(self) -> tuple[Path, ...]:
        """Its sys.path, existing folders only."""
        return tuple(Path(entry) for entry in self.told["sys_path"] if entry and Path(entry).is_dir())

    def start_inside(
        self, task: str, request: Mapping[str, Any], *, folder: Path, environment: Mapping[str, str] | None = None
    ) -> tuple[Running, Path]:
        """Starts a script of inside/ in this interpreter; gives the process and the folder of its answers."""
        return _start_inside(self.python, task, request, folder=folder, environment=environment)


def chosen(option: str | None, *, as_module: bool) -> tuple[Choice, ...]:
    """The candidates in order of preference; the first one is examined.

    Raises BadInput when a named one is not there.
    """
    if option is not None:
        return (Choice(python=_interpreter(expanded(Path(option)), f"--python {option}"), because="--python"),)
    own = Choice(python=Path(sys.executable), because="the interpreter attn-doctor runs in")
    if as_module:
        return (Choice(python=own.python, because="started with python -m attn_doctor"),)
    candidates = []
    stale = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = os.environ.get(variable)
        if not folder or (variable == "CONDA_PREFIX" and _is_conda_base(Path(folder))):
            continue
        try:
            python = _interpreter(Path(folder), f"{variable}={folder}")
        except BadInput:
            # A shell that outlived its environment: not what the person asked for, so no error of theirs.
            stale.append(f"{variable}={folder} holds no Python")
        else:
            candidates.append(Choice(python=python, because=f"{variable} is set"))
    because = "; ".join([own.because, *stale])
    return (*candidates, Choice(python=own.python, because=because))


def _is_conda_base(prefix: Path) -> bool:
    return os.environ.get("CONDA_DEFAULT_ENV") == "base" or (prefix / "condabin").is_dir()


def _interpreter(path: Path, about: str) -> Path:
    """The interpreter of an environment folder, or the file itself."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise BadInput(
            f"it cannot be looked at: {error.strerror}", about=about, hint="Name one that this user may look at."
        ) from None
    if path.is_dir():
        for name in ("bin/python", "bin/python3", "python.exe", "Scripts/python.exe"):
            if (path / name).exists():
                return path / name
        raise BadInput(
            "the folder holds no Python environment",
            about=about,
            hint="Name an interpreter, or the folder of an environment (the one that holds bin/python).",
        )
    if not path.exists():
        raise BadInput("there is no such interpreter", about=about, hint="Name an existing file or environment folder.")
    if not os.access(path, os.X_OK):
        raise BadInput("the file is not executable", about=about, hint="Name a Python interpreter.")
    return path


class TargetQuestion:
    """Chooses the interpreter and asks it about itself; `answer` once. Meanwhile other things can be read.

    Raises BadInput for a named one that is not there, TargetUnusable for one that does not start.
    """

    def __init__(self, option: str | None, *, as_module: bool, folder: Path) -> None:
        self._choices = chosen(option, as_module=as_module)
        # The real HOME: version-manager shims find their Python below it. The real one is sys.executable afterwards.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        self._running, self._answers = _start_inside(
            self._choices[0].python, "interpreter", {}, folder=folder, environment=environment
        )

    def end(self) -> None:
        """Ends the question early."""
        self._running.end()

    def answer(self, timeout: float) -> Target:
        """The target.

        Raises TargetUnusable for an interpreter that does not answer.
        """
        first, rest = self._choices[0], self._choices[1:]
        return _target(first, rest, _told(first, self._running.wait(timeout), self._answers))


def examine_target(option: str | None, *, as_module: bool, folder: Path, timeout: float) -> Target:
    """The same in one step."""
    return TargetQuestion(option, as_module=as_module, folder=folder).answer(timeout)


def _target(first: Choice, rest: tuple[Choice, ...], told: dict[str, Any]) -> Target:
    own = Path(told["executable"] or first.python)
    others = tuple(
        str(choice.python)
        for choice in rest
        if choice.python.parent.resolve() != own.parent.resolve() and _holds_torch(choice.python)
    )
    return Target(
        python=own,
        because=first.because,
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


def _holds_torch(python: Path) -> bool:
    # Without starting it: only its own site-packages are looked at.
    return any(python.parent.parent.glob("lib/python3*/site-packages/torch/version.py"))


def _told(choice: Choice, completed: Completed, answers: Path) -> dict[str, Any]:
    try:
        told = json.loads((answers / "interpreter.json").read_text())
        if not isinstance(told, dict) or not isinstance(told.get("sys_path"), list):
            raise ValueError("not an answer")
    except (OSError, ValueError):
        check_room(answers)
        # What faulthandler adds where there is no Python yet hides the line above it, which tells why.
        said = completed.stderr.partition("\nCurrent thread 0x")[0] or completed.stderr
        last = said.strip().splitlines()[-3:]
        home = os.environ.get("PYTHONHOME")
        other = f"PYTHONHOME is {home}, which may belong to another Python: unset it. " if home else ""
        raise TargetUnusable(
            f"the interpreter {completed.ended()} and told nothing about itself",
            about="\n".join([f"interpreter: {choice.python} ({choice.because})", *(f"  {line}" for line in last)]),
            hint=f"{other}Name another with --python; it needs Python 3.9 or later.",
        ) from None
    return told


def read_answer(file: Path) -> dict[str, Any] | None:
    """What a script of inside/ wrote; None where it wrote nothing, or no object."""
    try:
        value = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _start_inside(
    python: Path,
    task: str,
    request: Mapping[str, Any],
    *,
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> tuple[Running, Path]:
    answers = folder / f"{task}-answers"
    answers.mkdir()
    asked = folder / f"{task}-request.json"
    asked.write_text(json.dumps({"task": task, **request}))
    running = Running(
        [str(python), "-B", str(INSIDE / "bootstrap.py"), str(asked), str(answers)],
        folder=folder,
        name=task,
        environment=patient_environment(folder) if environment is None else environment,
    )
    return running, answers
