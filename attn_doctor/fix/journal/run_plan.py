"""Carries out a whole plan: journal, changes, second examination; undoes everything when that fails."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.journal import run_steps
from attn_doctor.fix.journal.journal import Run, begin
from attn_doctor.fix.journal.undo import Reinstall, undo
from attn_doctor.fix.journal.verify import troubles
from attn_doctor.model.findings import Diagnosis
from attn_doctor.model.plans import Plan
from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of the run."""

    run: Run
    cured: bool
    troubles: tuple[str, ...] = ()
    after: Diagnosis | None = None


class NotCured(AttnDoctorError):
    """A step failed, or a finding remained, and everything was undone."""

    exit_status = 4


def carry_out(
    plan: Plan,
    plan_text: str,
    *,
    home: Path,
    before: Diagnosis,
    install: run_steps.Installing,
    examine: Callable[[], Diagnosis],
    reinstall: Reinstall | None = None,
) -> Outcome:
    """Carries the plan out. The caller holds the locks and has checked the facts on which the plan rests.

    Raises JournalUnusable before anything is changed, NotCured after everything was undone, UndoFailed.
    """
    run_steps.check_files(plan)
    run = begin(home, plan_text, ", ".join(cured.finding for step in plan.steps for cured in step.cures))
    return go_on(plan, run, before=before, install=install, examine=examine, done=frozenset(), reinstall=reinstall)


def go_on(
    plan: Plan,
    run: Run,
    *,
    before: Diagnosis,
    install: run_steps.Installing,
    examine: Callable[[], Diagnosis],
    done: frozenset[int],
    reinstall: Reinstall | None = None,
) -> Outcome:
    """Carries out the rest of a run, from the first unfinished step."""
    try:
        run_steps.apply(plan, run, install=install, done=done)
        after = examine()
        found = troubles(plan, before, after)
        if not found:
            run.note("verified")
            return Outcome(run=run, cured=True, after=after)
    except BaseException as error:
        # Also on ^C and SIGTERM: whatever ends the run early, the files are restored first.
        with _undisturbed():
            undo(run, lenient=True, reinstall=reinstall)
        if isinstance(error, OSError):
            raise NotCured(
                f"the run could not be finished: {error.strerror or error}",
                about=str(error.filename or run.folder),
                hint="Everything is as it was before.",
            ) from None
        if isinstance(error, AttnDoctorError):
            raise NotCured(error.what, about=error.about, hint="Everything is as it was before.") from None
        raise
    with _undisturbed():
        undo(run, lenient=True, reinstall=reinstall)
    return Outcome(run=run, cured=False, troubles=found, after=after)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Blocks a second ^C, which must not interrupt the undo."""

    def later(number: int, frame: FrameType | None) -> None:
        pass

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, later) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
