"""`attn-doctor undo`: undoes a run of `fix`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from attn_doctor.cli import started
from attn_doctor.cli.declare import Argument, Option
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import Lang, LockWait
from attn_doctor.cli.shared import each
from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.journal import run_commands
from attn_doctor.fix.journal.undo import UndoFailed
from attn_doctor.formats import fix_v1
from attn_doctor.model.exit_status import Status
from attn_doctor.report import language
from attn_doctor.report.words.sizes import size_words
from attn_doctor.workflows.undo import UndoRequest, pruned, runs
from attn_doctor.workflows.undo import undo as run_undo


@guarded
def undo(
    which: Annotated[str | None, Argument(metavar="[RUN]", help="The last one that is not undone yet.")] = None,
    python: Annotated[
        str | None, Option(metavar="PATH", help="Interpreter or environment folder that was fixed.")
    ] = None,
    config: Annotated[
        list[Path] | None, Option(metavar="FILE", help="A configuration that was fixed. Repeatable.")
    ] = None,
    list_: Annotated[bool, Option("--list", help="List the runs; change nothing.")] = False,
    force: Annotated[
        bool, Option("--force", help="Put back also what somebody else changed since; theirs is set aside.")
    ] = False,
    leave: Annotated[
        list[str] | None, Option(metavar="PACKAGE", help="Put back everything but this package. Repeatable.")
    ] = None,
    prune_: Annotated[
        bool, Option("--prune", help="Remove the old files that runs keep, but those of the last ones.")
    ] = False,
    keep: Annotated[
        int, Option("--keep", min=0, metavar="N", help="With --prune: how many runs can still be undone.")
    ] = 1,
    json_: Annotated[bool, Option("--json", help="Print the answer as JSON (attn-doctor/undo/v1).")] = False,
    lang: Lang = None,
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
        leave=each(leave),
        wait=wait,
    )
    if list_:
        return _list(request, as_json=json_)
    if prune_:
        return _prune(request, keep, as_json=json_)
    try:
        result = run_undo(request)
    except AttnDoctorError as error:
        if json_:
            outcome = "not-put-back" if isinstance(error, UndoFailed) else "refused"
            troubles = fix_v1.said(error)
            sys.stdout.write(fix_v1.undo_text(outcome=outcome, exit_status=error.exit_status, troubles=troubles))
        raise
    if json_:
        run, undone = result.run, result.undone
        sys.stdout.write(
            fix_v1.undo_text(
                outcome="nothing-to-undo" if run is None else "undone",
                exit_status=Status.HEALTHY,
                run=None if run is None else run.id,
                files=undone.files,
                left=undone.left,
                found=undone.found,
            )
        )
        return Status.HEALTHY
    if result.run is None:
        print(language.say("Nothing is left to undo."))  # noqa: T201
        return Status.HEALTHY
    count = result.undone.files
    line = language.say(
        "Run {id} is undone: {count} file{s} put back.", id=result.run.id, count=count, s="s" if count != 1 else ""
    )
    print(line)  # noqa: T201
    for file in result.undone.left:
        print(language.say("Left: {file}", file=file))  # noqa: T201
    if result.undone.found:
        print(language.say("What stood in their place is in {found}", found=result.undone.found))  # noqa: T201
    return Status.HEALTHY


def _list(request: UndoRequest, *, as_json: bool) -> int:
    found = runs(request)
    if as_json:
        listed = [
            {
                "id": run.id,
                "state": run.state,
                "bytes": run.size(),
                "home": str(run.home),
                "undo": run_commands.undo(run),
            }
            for run in found
        ]
        sys.stdout.write(fix_v1.undo_text(outcome="listed", exit_status=Status.HEALTHY, runs=listed))
        return Status.HEALTHY
    for run in found:
        begun = next(iter(run.entries()), {})
        print(f"{run.id}  {run.state:11}  {size_words(run.size()):>9}  {run.home}  {begun.get('summary', '')}")  # noqa: T201
    if not found:
        print(language.say("No run of `fix` is known here."))  # noqa: T201
    return Status.HEALTHY


def _prune(request: UndoRequest, keep: int, *, as_json: bool) -> int:
    found = pruned(request, keep=keep)
    if as_json:
        gone = [{"id": run.id, "bytes": count} for run, count in found]
        sys.stdout.write(fix_v1.undo_text(outcome="pruned", exit_status=Status.HEALTHY, pruned=gone))
        return Status.HEALTHY
    for run, count in found:
        print(language.say("Pruned run {id}: {count}", id=run.id, count=size_words(count)))  # noqa: T201
    if not found:
        print(language.say("Nothing is left to prune."))  # noqa: T201
    return Status.HEALTHY
