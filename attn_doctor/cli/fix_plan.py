"""The first half of `attn-doctor fix`: the target is examined and a plan made, or a saved one held against it.

Nothing is changed here. What a person then reads and answers is in fix_ask.py, what is done with it in fix_run.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from attn_doctor.cli import fix_run
from attn_doctor.cli.fix_request import Request
from attn_doctor.cli.fix_session import Session
from attn_doctor.cli.undo import known_homes
from attn_doctor.diagnose.traced import met
from attn_doctor.fix.allowed import check_plan, project_of
from attn_doctor.fix.journal import journal
from attn_doctor.fix.journal.run_steps import Stale
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.target import Target
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis
from attn_doctor.model.plans import Plan
from attn_doctor.planning.plan import plan
from attn_doctor.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, what it was made from, and whose runs were known before anything was looked at."""

    plan: Plan
    before: Diagnosis
    facts: FactSet
    homes: tuple[Path, ...]
    known_runs: frozenset[str]

    def check_undisturbed(self, target: Target) -> None:
        """Raises Overtaken where another run began meanwhile: what was looked at may have been half changed."""
        if journal.names(self.homes) != self.known_runs:
            raise fix_run.Overtaken("another run began meanwhile", about=str(target.prefix))


def planned(request: Request, session: Session, say: Callable[[str], None]) -> Planned:
    """Waits for other runs, examines, and plans.

    Raises Held where another run does not end in time, Stale where a saved plan no longer fits.
    """
    homes = () if request.shows_only else known_homes(session.target, session.configs)
    journal.let_finish(homes, wait=request.wait)
    known_runs = journal.names(homes)
    facts = session.look("before", say)
    before = session.judged(facts)
    if request.saved is not None:
        _check_saved(request.saved, request, session, facts)
        plan = request.saved
    else:
        say("planning")
        plan = _made(request, session, facts, before)
    return Planned(plan=plan, before=before, facts=facts, homes=homes, known_runs=known_runs)


def with_named(request: Request, session: Session, planned: Planned, named: tuple[str, ...]) -> Planned:
    """Planned once more from what was seen, with these findings named although they rest on an assumption."""
    policy = replace(request.policy, named=(*request.policy.named, *named))
    plan = _made(replace(request, policy=policy), session, planned.facts, planned.before)
    return replace(planned, plan=plan)


def _check_saved(plan: Plan, request: Request, session: Session, facts: FactSet) -> None:
    try:
        check_plan(plan, prefix=session.target.prefix, here=Path.cwd(), stash=session.stash)
    except Refused as error:
        raise Stale(str(error), about=f"--plan {request.plan_file}", hint="Make a new plan, here.") from None
    fix_run.check_ground(plan, facts)


def _made(request: Request, session: Session, facts: FactSet, before: Diagnosis) -> Plan:
    here = project_of(Path.cwd().resolve() / "file")
    return plan(
        before if request.trace is None else met(before, session.recipes),
        facts,
        session.recipes,
        replace(request.policy, wheels=tuple((one.package, one.version) for one in session.wheels)),
        doctor_version=__version__,
        python=session.target.python,
        prefix=session.target.prefix,
        configs=session.configs,
        resolve=session.resolve(facts, before),
        projects=(here,) if request.trace is not None else (),
        here=here,
        sealed=session.target.externally_managed,
    )
