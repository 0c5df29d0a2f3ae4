"""Installs a plan into a new environment, and checks it. Never changes an environment that is there."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.machine.process import Running
from attn_doctor.machine.scratch import scratch
from attn_doctor.model.report import Report
from attn_doctor.model.stack import PlannedNode, StackPlan
from attn_doctor.stack.commands import install_arguments
from attn_doctor.stack.settings import settings_of_pip
from attn_doctor.workflows.check import CheckRequest, check
from attn_doctor.workflows.subject import Say, silent

_LONGEST = 7200.0
_LAST_LINES = 12


def refuse_present(folder: Path) -> None:
    """Raises BadInput when something is in the place of the new environment."""
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        hint = "Name a folder that is not there: an environment that is there is never changed."
        raise BadInput("something is there already", about=f"--apply {folder}", hint=hint)


def apply(plan: StackPlan, node: PlannedNode, folder: Path, *, say: Say = silent) -> Report:
    """Makes the environment, installs the plan's wheels, and returns what `check` finds in it.

    Nothing is built. What was made is removed when an installation fails. Raises BadInput when the folder is not free,
    AttnDoctorError when the environment cannot be made.
    """
    refuse_present(folder)
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.is_file() else shutil.which("uv")
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if uv is None and node.python != here:
        hint = "Install uv, or plan for the Python that runs attn-doctor."
        raise AttnDoctorError(
            f"pip makes environments of Python {here} alone", about=f"Python {node.python}", hint=hint
        )
    python = folder / "bin" / "python"
    try:
        with scratch() as logs:
            say("making the environment")
            venv = [uv, "venv", "--quiet", "--no-python-downloads", "--python", node.python] if uv else []
            _run([*(venv or [sys.executable, "-m", "venv"]), str(folder)], logs, "venv")
            for number, words in enumerate(install_arguments(plan)):
                say(f"installing {' '.join(words[:3])} …")
                install = (
                    [uv, "pip", "install", "--quiet", "--python", str(python), *settings_of_pip().for_uv()]
                    if uv
                    else []
                )
                install = install or [str(python), "-m", "pip", "install", "--quiet", "--no-input"]
                _run([*install, "--only-binary", ":all:", *words], logs, f"install{number}")
    except AttnDoctorError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    say("checking it")
    return check(CheckRequest(python=str(python)), say=say)


def _run(arguments: list[str], folder: Path, name: str) -> None:
    running = Running(arguments, folder=folder, name=name)
    try:
        completed = running.wait(_LONGEST)
    finally:
        running.end()
    if not completed.ok:
        said = (completed.stderr.strip() or completed.stdout.strip() or completed.ended()).splitlines()[-_LAST_LINES:]
        hint = "Nothing is left of the environment; the plan's channels show which were not reached."
        raise AttnDoctorError("the plan could not be installed", about="\n".join(said), hint=hint)
