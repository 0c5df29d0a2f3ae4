"""`attn-doctor undo`: undoes a run of `fix`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import started
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import LockWait
from attn_doctor.cli.shared import each
from attn_doctor.fix.packages.installers import Sources
from attn_doctor.model.exit_status import Status
from attn_doctor.workflows.undo import UndoRequest, runs
from attn_doctor.workflows.undo import undo as run_undo


@guarded
def undo(
    which: Annotated[str | None, typer.Argument(metavar="[RUN]", help="The last one that is not undone yet.")] = None,
    python: Annotated[
        str | None, typer.Option(metavar="PATH", help="Interpreter or environment folder that was fixed.")
    ] = None,
    config: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A configuration that was fixed. Repeatable.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the runs; change nothing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Put files back that somebody else has changed since.")
    ] = False,
    index_url: Annotated[
        str | None, typer.Option(metavar="URL", help="After --no-stash: package index, instead of the configured one.")
    ] = None,
    find_links: Annotated[
        list[str] | None, typer.Option(metavar="DIR|URL", help="After --no-stash: where more wheels lie. Repeatable.")
    ] = None,
    no_index: Annotated[
        bool, typer.Option("--no-index", help="After --no-stash: only what --find-links names.")
    ] = False,
    wait: LockWait = 0.0,
) -> int:
    """Put back every byte that a run of `fix` changed. Looks in the environment and in the current project.

    Exit status: 0 put back or nothing to do, 2 no such run, 3 changed since or lock held, 5 could not be put back.
    """
    request = UndoRequest(
        which=which,
        python=python,
        as_module=started.as_module,
        configs=each(config),
        force=force,
        sources=Sources(index_url=index_url, no_index=no_index, find_links=each(find_links)),
        wait=wait,
    )
    if list_:
        found = runs(request)
        for run in found:
            begun = next(iter(run.entries()), {})
            print(f"{run.id}  {run.state:11}  {run.home}  {begun.get('summary', '')}")  # noqa: T201
        if not found:
            print("No run of `fix` is known here.")  # noqa: T201
        return Status.HEALTHY
    result = run_undo(request, warn=print)
    if result.run is None:
        print("Nothing is left to undo.")  # noqa: T201
    else:
        print(f"Run {result.run.id} is undone: {result.files} file{'s' if result.files != 1 else ''} put back.")  # noqa: T201
    return Status.HEALTHY
