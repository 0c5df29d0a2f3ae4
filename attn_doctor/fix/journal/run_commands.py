"""Commands about a run that are printed for a person: whole, so that they work when they are typed, from anywhere."""

from __future__ import annotations

from pathlib import Path

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.allowed import project_of
from attn_doctor.fix.journal.journal import Run
from attn_doctor.machine.own_command import typed


def undo(run: Run, *options: str) -> str:
    """Puts this very run back."""
    return typed("undo", run.id, *options, *_found_by(run))


def resume(run: Run) -> str:
    """Finishes it."""
    return typed("fix", "--resume", *_found_by(run))


def _found_by(run: Run) -> tuple[str, ...]:
    """The options that lead to the run: its interpreter, and a file of the project where that keeps the journal."""
    try:
        plan = run.read("plan.json")
        python, prefix, named = str(plan["python"]), str(plan["prefix"]), tuple(map(str, plan["configs"]))
    except (AttnDoctorError, KeyError, TypeError):
        return ()
    if str(run.home) == prefix:
        return ("--python", python)
    config = next((one for one in named if project_of(Path(one)) == run.home), None)
    return ("--python", python, *(("--config", config) if config is not None else ()))
