"""Examines the target and makes a plan, or checks a saved one. Changes nothing."""

from __future__ import annotations

from pathlib import Path

from attn_doctor.diagnose.traced import met
from attn_doctor.fix.allowed import check_plan, project_of
from attn_doctor.fix.journal import journal
from attn_doctor.fix.journal.homes import known_homes
from attn_doctor.fix.journal.prepare import Stale
from attn_doctor.fix.packages.wheel_file import WheelFile
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.target import Target
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis, Severity
from attn_doctor.model.plans import Install, Plan
from attn_doctor.planning.choose import Policy
from attn_doctor.planning.plan import plan
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.version import __version__
from attn_doctor.workflows.fix.carry_out import Overtaken, check_ground
from attn_doctor.workflows.fix.session import Session
from attn_doctor.workflows.fix.shadowed import folders_of, has_its_own_folder
from attn_doctor.workflows.subject import Say


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, the facts and diagnosis it was made from, and the runs known before the examination."""

    plan: Plan
    before: Diagnosis
    facts: FactSet
    target: Target
    wheels: tuple[WheelFile, ...]
    """Files named by the user."""
    homes: tuple[Path, ...]
    known_runs: frozenset[str]
    signature: tuple[tuple[str, int, int], ...]
    """Of the environment when it was examined (Session.signature)."""

    @property
    def unused_wheels(self) -> tuple[WheelFile, ...]:
        """Wheel files that no step uses."""
        taken = {wheel for step in self.plan.steps if isinstance(step.change, Install) for wheel in step.change.wheels}
        return tuple(one for one in self.wheels if str(one.path) not in taken)

    @property
    def beside(self) -> tuple[str, ...]:
        """Errors that --only or --skip keeps out of the plan, but that count for the exit status."""
        named = {one.finding for step in self.plan.steps for one in step.cures}
        named |= {one.finding for one in self.plan.left}
        errors = [one.id for one in self.before.findings if one.severity is Severity.ERROR and one.accepted is None]
        return tuple(one for one in dict.fromkeys(errors) if one not in named)

    def check_undisturbed(self) -> None:
        """Raises Overtaken when another run began meanwhile: the examination may have seen half of its changes."""
        if journal.names(self.homes) != self.known_runs:
            raise Overtaken("another run began meanwhile", about=str(self.target.prefix))


def make_plan(session: Session, say: Say) -> Planned:
    """Waits for other runs, examines, and plans.

    Raises Held when another run does not end in time, Stale when a saved plan no longer fits.
    """
    request, saved = session.given.request, session.given.saved
    homes = () if request.shows_only else known_homes(session.target.prefix, session.configs)
    journal.let_finish(homes, wait=request.wait)
    known_runs = journal.names(homes)
    signature = session.signature()
    facts = session.look("before", say)
    before = session.judged(facts)
    if saved is not None:
        _check_saved(saved, session, facts)
        made = saved
    else:
        say("planning")
        made = _planned(session, facts, before, session.given.policy)
    return Planned(
        plan=made,
        before=before,
        facts=facts,
        target=session.target,
        wheels=session.wheels,
        homes=homes,
        known_runs=known_runs,
        signature=signature,
    )


def with_named(session: Session, planned: Planned, named: tuple[str, ...]) -> Planned:
    """Plans again with the same facts, with these findings named although they rest on an assumption."""
    policy = session.given.policy
    policy = replace(policy, named=(*policy.named, *named))
    return replace(planned, plan=_planned(session, planned.facts, planned.before, policy))


def _check_saved(plan: Plan, session: Session, facts: FactSet) -> None:
    request = session.given.request
    try:
        check_plan(plan, prefix=session.target.prefix, here=Path.cwd())
    except Refused as error:
        raise Stale(str(error), about=f"--plan {request.plan_file}", hint="Make a new plan, here.") from None
    check_ground(plan, facts)


def _planned(session: Session, facts: FactSet, before: Diagnosis, policy: Policy) -> Plan:
    here = project_of(Path.cwd().resolve() / "file")
    traced = session.traced is not None
    return plan(
        met(before, session.given.recipes) if traced else before,
        facts,
        session.given.recipes,
        replace(policy, wheels=tuple((one.package, one.version) for one in session.wheels)),
        doctor_version=__version__,
        python=session.target.python,
        prefix=session.target.prefix,
        configs=session.configs,
        resolve=session.resolve(facts, before),
        projects=(here,) if traced else (),
        here=here,
        manifests=session.manifests(),
        sealed=session.target.externally_managed,
        site_folders=() if has_its_own_folder(session.target) else folders_of(session.target, whole=False),
    )
