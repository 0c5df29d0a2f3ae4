"""Chooses the interpreter to examine from names and files alone; starts no process.

Order: the one named on the command line, the active environment, the nearest `.venv` here or above, `python` on PATH,
the doctor's own interpreter.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.machine.files import absolute
from attn_doctor.machine.trust import others_who_write
from attn_doctor.machine.which import which
from attn_doctor.model.libraries import published
from attn_doctor.quick_dataclasses import dataclass

OWN = "the interpreter attn-doctor runs in; no environment is active, no .venv here or above, no other python on PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen interpreter and the reason for the choice."""

    python: Path
    because: str
    named: bool = False
    """Named on the command line; any other choice is the same again when made from the same folder."""
    folder: Path | None = None
    """Folder to start it in, when the folder decides which Python a version manager's shim starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The interpreters found, best first; the first one is examined."""

    choices: tuple[Choice, ...]
    dead: tuple[str, ...] = ()
    """Environments that are active or in this folder, but contain no Python: the user meant them, and they cannot be
    examined.
    """
    passed_over: tuple[str, ...] = ()
    """Environments in this folder that are not used, each with the reason."""

    @property
    def first(self) -> Choice:
        """The interpreter that is examined."""
        return self.choices[0]

    @property
    def because(self) -> str:
        """Why this one was chosen, and why not the one that a user would expect."""
        return "; ".join([self.first.because, *self.dead, *self.passed_over])


def candidates(option: str | None, *, as_module: bool) -> Candidates:
    """The candidates in order of preference.

    Raises BadInput when the one named on the command line does not exist.
    """
    if option is not None:
        python = interpreter_of(absolute(Path(option)), f"--python {option}")
        return Candidates(choices=(Choice(python=python, because="--python", named=True),))
    own = Path(sys.executable)
    if as_module:
        return Candidates(choices=(Choice(python=own, because="started with python -m attn_doctor"),))
    choices: list[Choice] = []
    dead: list[str] = []
    passed_over: list[str] = []
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = os.environ.get(variable)
        if not folder or (variable == "CONDA_PREFIX" and _is_conda_base(Path(folder))):
            continue
        try:
            python = interpreter_of(absolute(Path(folder)), f"{variable}={folder}")
        except BadInput:
            dead.append(f"{variable}={folder} holds no Python")
        else:
            choices.append(Choice(python=python, because=f"{variable} is set"))
    for folder_found in _lying_here():
        try:
            python = interpreter_of(folder_found, str(folder_found))
        except BadInput:
            if not choices:
                dead.append(f"{folder_found} holds no Python")
            break
        marks = [python, *(one for one in (folder_found / "pyvenv.cfg",) if one.exists())]
        why_not = next(filter(None, map(others_who_write, marks)), "")
        if why_not:
            if not choices:
                passed_over.append(f"{folder_found} does not count: {why_not}")
            continue
        choices.append(Choice(python=python, because=f"{folder_found} is the nearest environment here"))
        break
    on_path = _on_path()
    if on_path is not None:
        choices.append(Choice(python=on_path, because=f"{on_path.name} on PATH", folder=_current()))
    choices.append(Choice(python=own, because=OWN))
    return Candidates(choices=tuple(choices), dead=tuple(dead), passed_over=tuple(passed_over))


def interpreter_of(path: Path, about: str) -> Path:
    """The interpreter in an environment's folder; the path itself when it is a file.

    Raises BadInput.
    """
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


def environment_of(python: Path) -> Path:
    """The environment folder to which an interpreter belongs, judged by its path; the interpreter itself when it
    belongs to none.
    """
    prefix = python.parent.parent
    return prefix if python.parent.name == "bin" and (prefix / "pyvenv.cfg").is_file() else python


def active_environment(*, as_module: bool) -> Path | None:
    """The environment that a check from here would examine, where it is not the doctor's own."""
    first = candidates(None, as_module=as_module).first
    return None if first.python == Path(sys.executable) else environment_of(first.python)


def same_environment(one: Path, other: Path) -> bool:
    """True when two interpreters belong to one environment. Link targets do not count: environments share a base."""
    return one.parent.resolve() == other.parent.resolve()


def holds_the_stack(python: Path) -> bool:
    """True when its own site-packages contain torch or a package built for it. Looks at file names, starts nothing."""
    attention = (library.top_level for library in published())
    wanted = ("torch", "triton", "transformers", "x_transformers", "jax", *attention)
    folders = python.parent.parent.glob("lib*/python3*/*-packages")
    return any((folder / name).is_dir() for folder in folders for name in wanted)


def holds_torch(python: Path) -> bool:
    """True when its own site-packages contain torch. Looks at file names, starts nothing."""
    return any(python.parent.parent.glob("lib*/python3*/*-packages/torch/version.py"))


def _lying_here() -> Iterator[Path]:
    """The nearest environment, then those above it; a folder that is an environment itself counts, as for uv.

    https://docs.astral.sh/uv/pip/environments/#discovery-of-python-environments
    """
    here = _current()
    if here is None:
        return
    for folder in (here, *here.parents):
        if (folder / "pyvenv.cfg").is_file():
            yield folder
        if (folder / ".venv").is_dir():
            yield folder / ".venv"


def _on_path() -> Path | None:
    """The interpreter that `python` starts in this shell, or `python3` when there is no `python`; None when it is our
    own.

    A runner such as uvx puts the doctor's own environment first on PATH. When that environment holds nothing to
    examine, it is not what the user means by `python`.
    """
    own = Path(sys.executable)
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = which("python", path=entry) or which("python3", path=entry) if entry else None
        if found is None:
            continue
        python = absolute(Path(found))
        if not same_environment(python, own):
            return python
        if holds_the_stack(own):
            return None
    return None


def _current() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # deleted meanwhile
        return None


def _is_conda_base(prefix: Path) -> bool:
    return os.environ.get("CONDA_DEFAULT_ENV") == "base" or (prefix / "condabin").is_dir()
