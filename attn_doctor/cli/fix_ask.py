"""What `attn-doctor fix` shows and saves before it changes anything, and what it asks."""

from __future__ import annotations

import sys

from attn_doctor.cli.fix_request import Request
from attn_doctor.fix.packages.in_use import InUse, using
from attn_doctor.fix.packages.wheel_file import WheelFile
from attn_doctor.formats import plan_v1
from attn_doctor.machine.files import replace_file
from attn_doctor.machine.target import Target
from attn_doctor.model.findings import Diagnosis, Safety, Severity
from attn_doctor.model.plans import Install, Plan
from attn_doctor.version import __version__

_UNSAFE = "--unsafe-fixes lets unsafe steps be taken; --dry-run shows the plan alone."


def show(plan: Plan, target: Target, wheels: tuple[WheelFile, ...], *, verbose: bool) -> None:
    """Prints the plan, and which of the wheels that a person named it has no use for."""
    from attn_doctor.report import plan_text
    from attn_doctor.report.console import ReportConsole

    console = ReportConsole(sys.stdout)
    console.print(
        f"attn-doctor {__version__} plans for {target.python} "
        f"(Python {target.version}, {target.environment_kind}; {target.because})",
        soft_wrap=True,
    )
    plan_text.write(plan, console, verbose=verbose)
    for one in wheels:
        if not any(isinstance(step.change, Install) and str(one.path) in step.change.wheels for step in plan.steps):
            print(f"{one.path.name}: no step takes it. --find-links offers wheels to every cure.")  # noqa: T201


def keep(request: Request, plan: Plan, before: Diagnosis) -> None:
    """Writes the plan where it was asked for, and names the errors that it was not asked about."""
    if request.save_plan is not None:
        replace_file(request.save_plan, plan_v1.dumps(plan))
        print(f"The plan is in {request.save_plan}. Nothing was changed.")  # noqa: T201
    beside = _beside(plan, before)
    if beside:
        print(f"Not asked about here, and an error all the same: {', '.join(beside)}.")  # noqa: T201


def agreed(request: Request, plan: Plan, target: Target) -> bool:
    """Whether the plan may be carried out: by the options, or by a person who is asked.

    Raises InUse where programs run from the environment, nobody is to be asked, and --even-if-used was not said.
    """
    if not request.policy.unsafe and any(step.safety is not Safety.SAFE for step in plan.steps):
        print(f"The plan holds unsafe steps. {_UNSAFE}")  # noqa: T201
        return False
    if any(isinstance(step.change, Install) for step in plan.steps):
        _check_unused(target, ask=not request.yes, allowed=request.even_if_used)
    if not request.yes and not _says_yes(f"Take {_these(len(plan.steps))}?"):
        print("Nothing was changed.")  # noqa: T201
        return False
    return True


def meant(plan: Plan) -> tuple[str, ...]:
    """The findings that rest on an assumption and that a person wants mended all the same: one question for each."""
    chosen = []
    for one in plan.left:
        if one.needs_naming:
            print(f"{one.finding}: {one.title}\n  {one.reason}")  # noqa: T201
            if _says_yes("Mend it all the same?"):
                chosen.append(one.finding)
    return tuple(chosen)


def _beside(plan: Plan, before: Diagnosis) -> list[str]:
    """Errors that --only or --skip keeps out of the plan, and that the exit status counts."""
    named = {one.finding for step in plan.steps for one in step.cures} | {one.finding for one in plan.left}
    errors = [one.id for one in before.findings if one.severity is Severity.ERROR and one.accepted is None]
    return [one for one in dict.fromkeys(errors) if one not in named]


def _check_unused(target: Target, *, ask: bool, allowed: bool) -> None:
    """Says what runs from the environment; where nobody can be asked, that is a refusal."""
    found = using(target)
    if not found:
        return
    if not ask and not allowed:
        raise InUse(
            "programs run from this environment, and its packages would change under them",
            about="\n".join(found[:10]),
            hint="End them first, or say --even-if-used.",
        )
    for line in found[:10]:
        print(f"In use by {line}")  # noqa: T201


def _these(count: int) -> str:
    return "this step" if count == 1 else f"these {count} steps"


def _says_yes(question: str) -> bool:
    """Whether a person says yes."""
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")
