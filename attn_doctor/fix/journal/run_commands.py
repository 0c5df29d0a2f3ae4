"""Printed commands about a run: complete, so that they work from any folder."""

from __future__ import annotations

from pathlib import Path

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.allowed import project_of
from attn_doctor.fix.journal.journal import Run
from attn_doctor.machine.own_command import typed


def undo(run: Run, *options: str) -> str:
    """Command that undoes this run."""
    return typed("undo", run.id, *options, *_found_by(run))


def resume(run: Run) -> str:
    """Command that finishes this run."""
    return typed("fix", "--resume", *_found_by(run))


def _found_by(run: Run) -> tuple[str, ...]:
    """The options that locate the run: its interpreter, or a file of the project that contains the journal."""
    try:
        plan = run.read("plan.json")
        python, prefix, named = str(plan["python"]), str(plan["prefix"]), tuple(map(str, plan["configs"]))
    except (AttnDoctorError, KeyError, TypeError):
        return ()
    if str(run.home) == prefix:
        return ("--python", python)
    config = next((one for one in named if project_of(Path(one)) == run.home), None)
    return ("--python", python, *(("--config", config) if config is not None else ()))
