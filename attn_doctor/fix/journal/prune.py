"""Removes what old runs keep: a replaced torch takes gigabytes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from attn_doctor.fix.journal.journal import Run

_KEPT = ("kept", "found")


def prune(every: Sequence[Run], *, keep: int) -> tuple[tuple[Run, int], ...]:
    """Removes the old files of all but the last `keep` applied runs, and everything of undone ones; returns the runs
    and the bytes that were freed. A run that was cut off stays. The caller holds the lock.

    Raises OSError.
    """
    found = []
    applied = [run for run in every if run.state == "applied"]
    for run in every:
        state = run.state
        if state == "undone" and not (run.folder / "found").is_dir():
            found.append((run, run.size()))
            shutil.rmtree(run.folder)
        elif state == "undone" or (state == "applied" and run in applied[: len(applied) - keep]):
            before = run.size()
            # The note first: what is half removed cannot be put back.
            run.note("pruned")
            for name in _KEPT:
                shutil.rmtree(run.folder / name, ignore_errors=True)
            run.discard_prepared()
            found.append((run, before - run.size()))
    return tuple(found)
