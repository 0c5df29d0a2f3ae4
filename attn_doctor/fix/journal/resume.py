"""Resumes an interrupted run: an unfinished step is undone and made again."""

from __future__ import annotations

from pathlib import Path

from attn_doctor.fix.journal.journal import JournalUnusable, Run, runs
from attn_doctor.fix.journal.undo import Reinstall, check_untouched, undo, undo_step
from attn_doctor.formats import plan_v1
from attn_doctor.model.plans import Plan


def interrupted(home: Path) -> Run | None:
    """The last run of a home, when it neither finished nor was undone. The caller holds the lock."""
    return next((run for run in reversed(runs(home)) if run.state == "interrupted"), None)


def resumed_steps(run: Run, *, reinstall: Reinstall | None = None) -> tuple[Plan | None, frozenset[int]]:
    """The plan and the finished steps. The plan is None when the interrupted run was itself an undo, which is then
    completed.

    Raises JournalUnusable, ChangedSince, UndoFailed.
    """
    entries = run.entries()
    if any(entry["at"] == "undoing" for entry in entries):
        undo(run, reinstall=reinstall)
        return None, frozenset()
    try:
        text = (run.folder / "plan.json").read_text()
    except OSError as error:
        raise JournalUnusable(f"the run's plan cannot be read: {error.strerror}", about=str(run.folder)) from None
    done = {entry["step"] for entry in entries if entry["at"] == "changed"}
    begun = {entry["step"] for entry in entries if entry["at"] == "changing"} - done
    # Finished steps are checked too: they would be undone if the rest of the run fails.
    check_untouched(run, begun=begun | done, whole=done)
    for number in begun:
        undo_step(run, number, reinstall=reinstall)
    return plan_v1.loads(text, about=str(run.folder / "plan.json")), frozenset(done)
