"""Carries out a whole plan: prepares it beside the environment, proves it, exchanges the files; or leaves all as it
was."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.journal import prepare
from attn_doctor.fix.journal.exchange import Swap
from attn_doctor.fix.journal.journal import Run, begin
from attn_doctor.fix.journal.noted_findings import noted, read_noted
from attn_doctor.fix.journal.swap import check_before, swap_in
from attn_doctor.fix.journal.undo import undo
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


class NotCured(AttnDoctorError):
    """A step failed, or a finding remained, and everything is as it was."""

    exit_status = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was found in the environment as it would be."""

    plan: Plan
    """The steps that it is about; the others change files outside of the environment."""
    after: Diagnosis
    broken: tuple[str, ...] = ()
    """What held before and would not hold any more."""
    whole: bool = True
    """The proof is about every step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What a run needs of the world: an installer, and the two ways to examine."""

    stage: prepare.Staging
    examine: Callable[[], Diagnosis]
    """Examines the environment itself."""
    prove: Callable[[Plan, Run, Swap], Proof | None]
    """Examines the environment as it would be, without changing it. None where that cannot be told beforehand."""
    mark: str = ""
    """The mark of the run's processes."""


def carry_out(plan: Plan, plan_text: str, *, home: Path, before: Diagnosis, hands: Hands) -> Outcome:
    """Carries the plan out. The caller holds the locks and has checked the facts on which the plan rests.

    Raises JournalUnusable before anything is changed, NotCured after everything was undone, UndoFailed.
    """
    prepare.check_files(plan)
    summary = ", ".join(cured.finding for step in plan.steps for cured in step.cures)
    run = begin(home, plan_text, summary, mark=hands.mark, notes=noted(before))
    return _undone_unless_cured(run, hands, lambda: _whole(plan, run, before, hands))


def go_on(plan: Plan, run: Run, *, hands: Hands) -> Outcome:
    """Carries out the rest of a run that was cut off."""
    run.note("resumed", mark=hands.mark)
    if not run.reached("swapping"):
        run.discard_prepared()
        return _undone_unless_cured(run, hands, lambda: _whole(plan, run, read_noted(run), hands))
    return _undone_unless_cured(run, hands, lambda: _exchanged(plan, run, Swap.read(run), read_noted(run), hands))


def _whole(plan: Plan, run: Run, before: Diagnosis, hands: Hands) -> tuple[str, ...]:
    """Prepares, proves and exchanges; returns why the plan failed, if it did."""
    swap = prepare.prepare(plan, run, stage=hands.stage)
    run.note("staged")
    proof = hands.prove(plan, run, swap)
    if proof is not None:
        found = (*troubles(proof.plan, before, proof.after), *proof.broken)
        if found:
            return found
        if proof.whole:
            run.note("proven")
    check_before(swap)
    run.note("swapping")
    return _exchanged(plan, run, swap, before, hands)


def _exchanged(plan: Plan, run: Run, swap: Swap, before: Diagnosis, hands: Hands) -> tuple[str, ...]:
    (run.folder / "kept").mkdir(exist_ok=True)
    swap_in(run, swap)
    run.note("swapped")
    if not run.reached("proven"):
        found = troubles(plan, before, hands.examine())
        if found:
            return found
    run.note("verified")
    run.discard_prepared()
    return ()


def _undone_unless_cured(run: Run, hands: Hands, work: Callable[[], tuple[str, ...]]) -> Outcome:
    try:
        found = work()
    except BaseException as error:
        # Also on ^C and SIGTERM: whatever ends the run early, the files are restored first.
        with _undisturbed():
            undo(run, force=True)
        if isinstance(error, OSError):
            raise NotCured(
                f"the run could not be finished: {error.strerror or error}",
                about=str(error.filename or run.folder),
                hint="Everything is as it was before.",
            ) from None
        if isinstance(error, AttnDoctorError):
            raise NotCured(error.what, about=error.about, hint="Everything is as it was before.") from None
        raise
    if not found:
        return Outcome(run=run, cured=True)
    with _undisturbed():
        undo(run, force=True)
    return Outcome(run=run, cured=False, troubles=found)


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
