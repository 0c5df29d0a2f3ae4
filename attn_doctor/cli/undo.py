"""`attn-doctor undo`: puts back what a run of `fix` changed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import started
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.shared import each
from attn_doctor.errors import BadInput
from attn_doctor.fix import journal
from attn_doctor.fix import undo as undoing
from attn_doctor.fix.allowed import project_of
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import Target, examine_target
from attn_doctor.report.exit_status import Status


@guarded
def undo(
    which: Annotated[str | None, typer.Argument(metavar="[RUN]", help="The last one that is not undone yet.")] = None,
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="Interpreter or environment folder that was mended.")
    ] = None,
    config: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A configuration that was mended. Repeatable.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the runs; change nothing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Put files back that somebody else has changed since.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="Wait for another run that holds the lock.")
    ] = 0.0,
) -> int:
    """Put back every byte that a run of `fix` changed. Looks in the environment and in the current project.

    Exit status: 0 put back or nothing to do, 2 no such run, 3 changed since or lock held, 5 could not be put back.
    """
    with scratch() as folder:
        target = examine_target(python, as_module=started.as_module, folder=folder, timeout=60.0)
    homes = known_homes(target, each(config))
    every = sorted((run for home in homes for run in journal.runs(home)), key=lambda one: one.id)
    if list_:
        for run in every:
            begun = next(iter(run.entries()), {})
            print(f"{run.id}  {run.state:11}  {run.home}  {begun.get('summary', '')}")  # noqa: T201
        if not every:
            print("No run of `fix` is known here.")  # noqa: T201
        return Status.HEALTHY
    if which is not None:
        every = [run for run in every if run.id == which]
        if not every:
            raise BadInput("there is no such run", about=f"undo {which}", hint="`attn-doctor undo --list` prints them.")
    waiting = [run for run in every if run.state != "undone"]
    if not waiting:
        print("Nothing is left to undo.")  # noqa: T201
        return Status.HEALTHY
    run = waiting[-1]
    with journal.held((run.home,), wait=wait):
        count = undoing.undo(run, lenient=force)
    print(f"Run {run.id} is undone: {count} file{'s' if count != 1 else ''} put back.")  # noqa: T201
    return Status.HEALTHY


def known_homes(target: Target, configs: tuple[Path, ...]) -> tuple[Path, ...]:
    """Where journals may lie: the environment, the projects of the named files, the current project."""
    here = Path.cwd() / "file"
    projects = (project_of(Path(os.path.realpath(one))) for one in (*configs, here))
    return tuple(dict.fromkeys([Path(os.path.realpath(target.prefix)), *projects]))
