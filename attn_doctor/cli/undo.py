"""`attn-doctor undo`: puts back what a run of `fix` changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import started
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import LockWait
from attn_doctor.cli.shared import each
from attn_doctor.errors import BadInput
from attn_doctor.fix.allowed import project_of
from attn_doctor.fix.journal import journal
from attn_doctor.fix.journal import undo as undoing
from attn_doctor.fix.packages import find_installer, installers
from attn_doctor.machine.own_command import typed
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import Target, examine_target
from attn_doctor.model.exit_status import Status


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
    with scratch() as folder:
        target = examine_target(python, as_module=started.as_module, folder=folder, timeout=60.0, isolated=True)
    configs = each(config)
    homes = known_homes(target, configs)
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
            raise BadInput(
                "there is no such run", about=f"undo {which}", hint=f"`{_lists(target, configs)}` prints them."
            )
    waiting = [run for run in every if run.state != "undone"]
    if not waiting:
        print("Nothing is left to undo.")  # noqa: T201
        return Status.HEALTHY
    run = waiting[-1]
    with scratch() as private, journal.held((run.home,), wait=wait):
        sources = installers.Sources(index_url=index_url, no_index=no_index, find_links=each(find_links))
        count = undoing.undo(run, lenient=force, reinstall=_reinstalling(target, sources, private))
    print(f"Run {run.id} is undone: {count} file{'s' if count != 1 else ''} put back.")  # noqa: T201
    return Status.HEALTHY


def _lists(target: Target, configs: tuple[Path, ...]) -> str:
    named = ("--python", str(target.python)) if target.named else ()
    return typed("undo", "--list", *named, *(word for one in configs for word in ("--config", str(one))))


def _reinstalling(target: Target, sources: installers.Sources, private: Path) -> undoing.Reinstall:
    """For a run without copies: the old releases are fetched, and only then anything is taken out."""

    def ready(old: tuple[str, ...], into: Path, kind: str) -> Callable[[], None]:
        print(f"The run had no copies (--no-stash): installing {' '.join(old)} again.")  # noqa: T201
        installer = find_installer.installer_for(kind, target, sources, private)
        installer.fetch(old, into, no_cache=False)
        return lambda: installer.install(old, into, reinstall=True)

    return ready


def known_homes(target: Target, configs: tuple[Path, ...]) -> tuple[Path, ...]:
    """Where journals may lie: the environment, the projects of the named files, the current project."""
    here = Path.cwd() / "file"
    projects = (project_of(Path(os.path.realpath(one))) for one in (*configs, here))
    return tuple(dict.fromkeys([Path(os.path.realpath(target.prefix)), *projects]))
