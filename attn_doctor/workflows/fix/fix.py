"""Plans, shows, asks, changes with a journal, and examines again. The caller prints and asks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from attn_doctor.errors import BadInput
from attn_doctor.fix.packages.in_use import InUse, using
from attn_doctor.formats import plan_v1
from attn_doctor.machine.files import replace_file
from attn_doctor.machine.process import ending_with_us
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import examine_target
from attn_doctor.model import exit_status
from attn_doctor.model.exit_status import Status
from attn_doctor.model.findings import Safety, Severity
from attn_doctor.model.plans import Cured, Install, Plan, Remaining, Step
from attn_doctor.model.report import nothing_to_examine
from attn_doctor.quick_dataclasses import replace
from attn_doctor.workflows.fix import carry_out, planned
from attn_doctor.workflows.fix.planned import Planned
from attn_doctor.workflows.fix.read_request import ReadRequest, read_request
from attn_doctor.workflows.fix.request import FixEnding, FixRequest, FixResult, Question
from attn_doctor.workflows.fix.session import Session, open_session
from attn_doctor.workflows.subject import Say, silent

#: Answers a question; called only when the request does not contain the answer.
Ask = Callable[[Question], bool]
#: Shows a plan before questions about it.
Show = Callable[[Planned], None]

#: How often another program may change the environment between plan and lock before `fix` gives up.
_OVERTAKEN = 2
#: Most programs named in a message about programs in use.
_NAMED = 10


def unseen(_planned: Planned) -> None:
    """Shows nothing."""


def fix(
    request: FixRequest, *, ask: Ask | None = None, show: Show = unseen, say: Say = silent, warn: Say = silent
) -> FixResult:
    """Fixes the findings of a check, or returns the reason why not. `say` receives progress messages, `warn` warnings.

    Raises BadInput for an invalid request, and when a question is necessary and `ask` is None; TargetUnusable when the
    interpreter does not answer, Stale when a saved plan no longer fits, InUse when programs run from the environment
    and `ask` is None, NotCured when a step failed and everything was undone.
    """
    read = read_request(request)
    if ask is None and not (request.yes or request.shows_only or request.resume):
        raise BadInput(
            "nobody can be asked: this is no terminal",
            about="attn-doctor fix",
            hint="--yes takes the plan's safe steps without asking; --dry-run shows it.",
        )
    with ending_with_us(read.mark):
        return _fixed(read, ask or (lambda _: True), show, say, warn)


def _fixed(read: ReadRequest, asked: Ask, show: Show, say: Say, warn: Say) -> FixResult:
    # The user agreed to the saved plan: when it is outdated, no other plan replaces it.
    for _ in range(_OVERTAKEN if read.saved is None else 0):
        try:
            return _once(read, asked, show, say, warn)
        except carry_out.Overtaken as error:
            warn(f"Another run was quicker: {error.what}. Planning anew.")
    return _once(read, asked, show, say, warn)


def _once(read: ReadRequest, ask: Ask, show: Show, say: Say, warn: Say) -> FixResult:
    """One attempt. Raises Overtaken when another program changed the environment meanwhile; nothing was changed
    here.
    """
    request = read.request
    with scratch() as folder, contextlib.ExitStack() as stack:
        python = request.python if read.saved is None else read.saved.python
        target = examine_target(
            python, as_module=request.as_module, folder=folder, timeout=request.timeout, isolated=request.quick
        )
        session = open_session(read, target, folder)
        if session.kept is not None:
            stack.callback(session.kept.end)
        if request.resume:
            return carry_out.resume(session, say, wait=request.wait)
        return _made(session, planned.make_plan(session, say), ask, show, say, warn)


def _made(session: Session, made: Planned, ask: Ask, show: Show, say: Say, warn: Say) -> FixResult:
    """What becomes of a plan. Raises as `_once`."""
    request, target = session.given.request, session.target
    made.check_undisturbed()
    show(made)
    if not (request.shows_only or request.yes or session.given.saved is not None):
        meant = tuple(
            one.finding for one in made.plan.left if one.needs_naming and ask(Question(plan=made.plan, assumed=one))
        )
        if meant:
            say("planning")
            with scratch() as again:
                made = planned.with_named(replace(session, folder=again), made, meant)
            show(made)
    plan = made.plan
    nothing = nothing_to_examine(made.facts, target.dead)
    if request.shows_only:
        if request.save_plan is not None:
            replace_file(request.save_plan, plan_v1.dumps(plan))
        status = exit_status.status_of(made.before, fail_on=Severity.ERROR, strict=False, nothing=nothing)
        return FixResult(ending=FixEnding.SHOWN, exit_status=int(status), plan=plan, beside=made.beside)
    if not plan.steps:
        status = carry_out.left_status(plan) or (Status.COULD_NOT_EXAMINE if nothing else Status.HEALTHY)
        return FixResult(ending=FixEnding.NO_STEPS, exit_status=int(status), plan=plan)
    if not request.unsafe and any(step.safety is not Safety.SAFE for step in plan.steps):
        return FixResult(ending=FixEnding.NEEDS_UNSAFE, exit_status=int(Status.FOUND), plan=plan)
    _check_unused(plan, session, asks=not request.yes, allowed=request.even_if_used, warn=warn)
    if not request.yes:
        plan = _agreed(plan, ask)
    if not plan.steps:
        return FixResult(ending=FixEnding.DECLINED, exit_status=int(Status.FOUND), plan=plan)
    with scratch() as again:
        going = replace(session, folder=again)
        return carry_out.carry_out(going, plan, made.before, say, signature=made.signature, wait=request.wait)


def _agreed(plan: Plan, ask: Ask) -> Plan:
    """The plan with the steps to which the user agrees; each question is about the steps that fix the same."""
    together: dict[tuple[Cured, ...], list[Step]] = {}
    for step in plan.steps:
        together.setdefault(step.cures, []).append(step)
    agreed = {cures for cures, steps in together.items() if ask(Question(plan=plan, steps=tuple(steps)))}
    declined = [
        Remaining(finding=one.finding, severity=one.severity, title=one.title, reason="declined")
        for cures in together
        if cures not in agreed
        for one in cures
    ]
    return replace(
        plan,
        steps=tuple(step for step in plan.steps if step.cures in agreed),
        left=(*plan.left, *dict.fromkeys(declined)),
    )


def _check_unused(plan: Plan, session: Session, *, asks: bool, allowed: bool, warn: Say) -> None:
    """Reports programs that run from an environment whose packages would change; without a user to ask, refuses."""
    apart = None if session.kept is None else session.kept.pid
    found = using(session.target, apart=apart) if any(isinstance(one.change, Install) for one in plan.steps) else ()
    if not found:
        return
    if not asks and not allowed:
        raise InUse(
            "programs run from this environment, and its packages would change under them",
            about="\n".join(found[:_NAMED]),
            hint="End them first, or say --even-if-used.",
        )
    for line in found[:_NAMED]:
        warn(f"In use by {line}")
