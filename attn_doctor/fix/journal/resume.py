"""Finds interrupted runs, and their plans."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attn_doctor.fix.journal import run_commands
from attn_doctor.fix.journal.changed_since import changed_since
from attn_doctor.fix.journal.exchange import Swap
from attn_doctor.fix.journal.journal import JournalUnusable, Run, runs
from attn_doctor.fix.journal.swap import ChangedSince
from attn_doctor.fix.journal.undo import undo
from attn_doctor.formats import plan_v1
from attn_doctor.model.plans import Plan


def interrupted(every: Sequence[Run]) -> Run | None:
    """The last of the runs of a home that was cut off between two of its changes. The caller holds the lock."""
    return next((run for run in reversed(every) if run.state == "interrupted"), None)


def unfinished(every: Sequence[Run]) -> Run | None:
    """The same, or the last run when it was cut off before its first change."""
    last = next(reversed(every), None)
    return interrupted(every) or (last if last is not None and last.state == "prepared" else None)


def drop_prepared(home: Path) -> None:
    """Ends runs that were cut off before their first change: nothing of them is in the environment.

    Raises StillAlive.
    """
    for run in runs(home):
        if run.state == "prepared":
            undo(run)


def resumed_plan(run: Run) -> Plan | None:
    """The plan of a run that can be taken up. None when the interrupted run was itself an undo, which is then
    completed.

    Raises JournalUnusable, ChangedSince, UndoFailed, StillAlive.
    """
    run.check_format()
    run.check_ended()
    if run.reached("undoing"):
        undo(run)
        return None
    if run.reached("swapping"):
        changed = changed_since(run, Swap.read(run))
        if changed:
            raise ChangedSince(
                "somebody else changed what the run was changing",
                about="\n".join(one.words for one in changed[:10]),
                hint=f"`{run_commands.undo(run, '--force')}` puts the old files back, and moves what is there now to "
                f"{run.folder / 'found'}.",
            )
    try:
        text = (run.folder / "plan.json").read_text()
    except OSError as error:
        raise JournalUnusable(f"the run's plan cannot be read: {error.strerror}", about=str(run.folder)) from None
    return plan_v1.loads(text, about=str(run.folder / "plan.json"))
