"""Carries out an agreed plan under locks, or resumes an interrupted run."""

from __future__ import annotations

from pathlib import Path

from attn_doctor.fix.journal import journal, run_commands
from attn_doctor.fix.journal import run_plan as carrying
from attn_doctor.fix.journal.homes import homes_of, known_homes
from attn_doctor.fix.journal.journal import Run
from attn_doctor.fix.journal.resume import interrupted, resumed_steps
from attn_doctor.fix.journal.run_steps import Installing, Stale, check_files
from attn_doctor.fix.journal.verify import changed_grounds
from attn_doctor.fix.packages import run_installer
from attn_doctor.formats import plan_v1
from attn_doctor.model.exit_status import Status
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis, Finding, Severity
from attn_doctor.model.plans import Install, Plan
from attn_doctor.quick_dataclasses import replace
from attn_doctor.workflows.fix.request import FixEnding, FixResult
from attn_doctor.workflows.fix.session import Session, again, installer_of
from attn_doctor.workflows.subject import Say


class Overtaken(Stale):
    """The plan was valid when it was made, but the environment changed since. Nothing was changed here: another plan
    can be made.
    """


def carry_out(session: Session, plan: Plan, before: Diagnosis, say: Say, *, wait: float) -> FixResult:
    """Carries out an agreed plan.

    Raises Overtaken when another program changed the environment first, NotCured when a step failed and everything was
    undone.
    """
    home, homes = homes_of(plan)
    with journal.held(homes, wait=wait):
        _no_other_run(homes)
        # Again, now under the lock: another program may have changed something between the question and the answer.
        facts = session.look("locked", lambda _: None)
        try:
            check_ground(plan, facts)
            check_files(plan)
        except Stale as error:
            raise Overtaken(error.what, about=error.about, hint=error.hint) from None
        say("changing")
        outcome = carrying.carry_out(
            plan,
            plan_v1.dumps(plan),
            home=home,
            before=before,
            install=_installing(session, facts),
            examine=lambda: again(session, say),
            reinstall=session.reinstall,
        )
    return _result(outcome, plan)


def resume(session: Session, say: Say, *, wait: float) -> FixResult:
    """Finishes an interrupted run."""
    homes = known_homes(session.target.prefix, session.configs)
    with journal.held(tuple(home for home in homes if (home / journal.FOLDER).is_dir()), wait=wait):
        run = next((found for home in homes if (found := interrupted(home)) is not None), None)
        if run is None:
            return FixResult(ending=FixEnding.NO_RUN, exit_status=int(Status.HEALTHY))
        plan, done = resumed_steps(run, reinstall=session.reinstall)
        if plan is None:
            return FixResult(ending=FixEnding.TAKEN_BACK, exit_status=int(Status.FIX_UNDONE), run=run)
        going = replace(session, configs=tuple(Path(one) for one in plan.configs))
        before = _as_planned(plan)
        facts = going.look("resumed", say)
        outcome = carrying.go_on(
            plan,
            run,
            before=before,
            install=_installing(going, facts),
            examine=lambda: again(going, say),
            done=done,
            reinstall=going.reinstall,
        )
    return _result(outcome, plan)


def _installing(session: Session, facts: FactSet) -> Installing:
    def install(change: Install, run: Run, number: int) -> None:
        run_installer.apply(
            change,
            run,
            number,
            installer=installer_of(session, change),
            judge=session.judge_fetched(facts, session.judged(facts)),
        )

    return install


def check_ground(plan: Plan, facts: FactSet) -> None:
    """Raises Stale when a fact on which the plan rests has changed."""
    changed = changed_grounds(plan, facts)
    if changed:
        raise Stale("the facts that the plan rests on have changed", about="\n".join(changed), hint="Make a new plan.")


def left_status(plan: Plan) -> Status:
    """Remaining errors fail the command as in `check`; so do findings that only need --unsafe-fixes."""
    gates = any(one.needs_unsafe or one.needs_naming or one.severity == Severity.ERROR.value for one in plan.left)
    return Status.FOUND if gates else Status.HEALTHY


def _no_other_run(homes: tuple[Path, ...]) -> None:
    for home in homes:
        run = interrupted(home)
        if run is not None:
            raise Stale(
                "an earlier run was cut off",
                about=str(run.folder),
                hint=f"`{run_commands.resume(run)}` finishes it, `{run_commands.undo(run)}` puts everything back.",
            )


def _as_planned(plan: Plan) -> Diagnosis:
    """The part of the diagnosis that a plan contains: enough to see whether its own findings are gone."""
    every = {
        (one.finding, one.subjects): Finding(
            id=one.finding, severity=Severity(one.severity), title=one.title, subjects=one.subjects
        )
        for step in plan.steps
        for one in step.cures
    }
    rest = [Finding(id=one.finding, severity=Severity(one.severity), title=one.title) for one in plan.left]
    return Diagnosis(findings=(*every.values(), *rest))


def _result(outcome: carrying.Outcome, plan: Plan) -> FixResult:
    return FixResult(
        ending=FixEnding.CURED if outcome.cured else FixEnding.NOT_CURED,
        exit_status=int(left_status(plan) if outcome.cured else Status.FIX_UNDONE),
        plan=plan,
        run=outcome.run,
        troubles=outcome.troubles,
    )
