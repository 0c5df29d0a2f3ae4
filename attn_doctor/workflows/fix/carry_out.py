"""Carries out an agreed plan under locks, or resumes an interrupted run."""

from __future__ import annotations

from pathlib import Path

from attn_doctor.fix.journal import journal, run_commands
from attn_doctor.fix.journal import run_plan as carrying
from attn_doctor.fix.journal.exchange import Swap
from attn_doctor.fix.journal.homes import homes_of, known_homes, runs_about
from attn_doctor.fix.journal.journal import Run
from attn_doctor.fix.journal.prepare import Stale, check_files
from attn_doctor.fix.journal.resume import drop_prepared, interrupted, resumed_plan, unfinished
from attn_doctor.fix.journal.verify import changed_grounds
from attn_doctor.fix.packages.stage import stage
from attn_doctor.formats import plan_v1
from attn_doctor.model.exit_status import Status
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis, Severity
from attn_doctor.model.plans import Install, Plan
from attn_doctor.quick_dataclasses import replace
from attn_doctor.workflows.fix.prove import prove
from attn_doctor.workflows.fix.request import FixEnding, FixResult
from attn_doctor.workflows.fix.session import Session, again, installer_of
from attn_doctor.workflows.subject import Say


class Overtaken(Stale):
    """The plan was valid when it was made, but the environment changed since. Nothing was changed here: another plan
    can be made.
    """


def carry_out(
    session: Session,
    plan: Plan,
    before: Diagnosis,
    say: Say,
    *,
    signature: tuple[tuple[str, int, int], ...],
    wait: float,
) -> FixResult:
    """Carries out an agreed plan. `signature`: of the environment when the plan was made.

    Raises Overtaken when another program changed the environment first, NotCured when a step failed and everything was
    undone.
    """
    home, homes = homes_of(plan)
    with journal.held(homes, wait=wait):
        _no_other_run(homes)
        # Again, now under the lock: another program may have changed something between the question and the answer.
        try:
            if session.signature() != signature:
                check_ground(plan, session.look("locked", lambda _: None))
            check_files(plan)
        except Stale as error:
            raise Overtaken(error.what, about=error.about, hint=error.hint) from None
        say("changing")
        outcome = carrying.carry_out(
            plan,
            plan_v1.dumps(plan),
            home=home,
            before=before,
            hands=_hands(session, say),
        )
    return _result(outcome, plan)


def resume(session: Session, say: Say, *, wait: float) -> FixResult:
    """Finishes an interrupted run."""
    homes = known_homes(session.target.prefix, session.configs)
    with journal.held(tuple(home for home in homes if (home / journal.FOLDER).is_dir()), wait=wait):
        prefix = session.target.prefix
        run = next((found for home in homes if (found := unfinished(runs_about(prefix, home))) is not None), None)
        if run is None:
            return FixResult(ending=FixEnding.NO_RUN, exit_status=int(Status.HEALTHY))
        plan = resumed_plan(run)
        if plan is None:
            return FixResult(ending=FixEnding.TAKEN_BACK, exit_status=int(Status.FIX_UNDONE), run=run)
        going = replace(session, configs=tuple(Path(one) for one in plan.configs))
        outcome = carrying.go_on(plan, run, hands=_hands(going, say))
    return _result(outcome, plan)


def _hands(session: Session, say: Say) -> carrying.Hands:
    def stage_(change: Install, run: Run) -> Swap:
        say("installing beside")
        return stage(change, run, installer=installer_of(session, change))

    return carrying.Hands(
        stage=stage_,
        examine=lambda: again(session, say),
        prove=lambda plan, run, swap: prove(session, plan, run, swap, say),
        mark=session.given.mark,
    )


def check_ground(plan: Plan, facts: FactSet) -> None:
    """Raises Stale when a fact on which the plan rests has changed."""
    changed = changed_grounds(plan, facts)
    if changed:
        raise Stale("the facts that the plan rests on have changed", about="\n".join(changed), hint="Make a new plan.")


def left_status(plan: Plan) -> Status:
    """Remaining errors fail the command as in `check`; so do findings that only need --unsafe-fixes. A plan without a
    step because nothing could be had is no healthy environment.
    """
    if not plan.steps and any(one.unavailable for one in plan.left):
        return Status.COULD_NOT_EXAMINE
    gates = any(one.needs_unsafe or one.needs_naming or one.severity == Severity.ERROR.value for one in plan.left)
    return Status.FOUND if gates else Status.HEALTHY


def _no_other_run(homes: tuple[Path, ...]) -> None:
    for home in homes:
        drop_prepared(home)
        run = interrupted(journal.runs(home))
        if run is not None:
            raise Stale(
                "an earlier run was cut off",
                about=str(run.folder),
                hint=f"`{run_commands.resume(run)}` finishes it, `{run_commands.undo(run)}` puts everything back.",
            )


def _result(outcome: carrying.Outcome, plan: Plan) -> FixResult:
    return FixResult(
        ending=FixEnding.CURED if outcome.cured else FixEnding.NOT_CURED,
        exit_status=int(left_status(plan) if outcome.cured else Status.FIX_UNDONE),
        plan=plan,
        run=outcome.run,
        troubles=outcome.troubles,
    )
