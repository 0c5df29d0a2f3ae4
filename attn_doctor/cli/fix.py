"""`attn-doctor fix`: plan, show, confirm, change under a journal, prove by examining again."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor import __version__
from attn_doctor.cli import fix_run, kernels_command, started
from attn_doctor.cli.fix_ask import agreed, check_unused, show
from attn_doctor.cli.fix_session import Session, WhichInstaller, trace_request
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import Assume, LockWait, Recipes, Skip, Timeout
from attn_doctor.cli.shared import each, names, place, progress
from attn_doctor.cli.undo import known_homes
from attn_doctor.cookbook import accepted, shelf
from attn_doctor.cookbook.gpus import named_gpu
from attn_doctor.diagnose.assume import assume
from attn_doctor.errors import BadInput
from attn_doctor.fix import installers, journal, make, wheel_file
from attn_doctor.fix.allowed import check_plan, project_of
from attn_doctor.fix.apply import Stale
from attn_doctor.fix.choose import Policy
from attn_doctor.fix.refusal import Refused
from attn_doctor.fix.wheel_file import WheelFile
from attn_doctor.machine.files import check_output, read_input, replace_file
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import Target, examine_target
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis, Safety, Severity
from attn_doctor.model.plans import Install, Plan
from attn_doctor.probe.known_kernels import Mode
from attn_doctor.report import exit_status
from attn_doctor.report.exit_status import Status
from attn_doctor.wire import plan_v1

#: How often somebody else may change the environment between the plan and the lock.
_OVERTAKEN = 2
_UNSAFE = "--unsafe-fixes lets unsafe steps be taken; --dry-run shows the plan alone."


@guarded
def fix(
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Interpreter or environment folder to examine and mend (venv, conda, uv)."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Look at files only: nothing is imported or run.")] = False,
    config: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A training configuration to examine and mend as well. Repeatable."),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME|sm_XY", help="Judge as if this GPU were in the node.")
    ] = None,
    assumption: Assume = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Mend only this finding or library. Repeatable.")
    ] = None,
    skip: Skip = None,
    remedy: Annotated[
        list[str] | None,
        typer.Option(metavar="FINDING=REMEDY", help="Take this remedy for that finding. Repeatable."),
    ] = None,
    recipes: Recipes = None,
    accept_file: Annotated[
        Path | None, typer.Option("--accept", metavar="FILE", help="Known findings: they are left as they are.")
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(metavar="FACTORY", help="Mend what a traced run meets: pkg.module:factory or file.py:factory."),
    ] = None,
    autocast: Annotated[
        str | None, typer.Option(metavar="DTYPE", help="With --trace: run inside torch.autocast of this dtype.")
    ] = None,
    kernels: Annotated[
        Mode | None,
        typer.Option("--kernels", help="Run the attention kernels as well, before and after: `check --kernels`."),
    ] = None,
    backend: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="With --kernels: this kernel only. Repeatable.")
    ] = None,
    timeout: Timeout = 60.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Take the plan's steps without asking.")] = False,
    unsafe: Annotated[
        bool, typer.Option("--unsafe-fixes", help="Plan steps that change packages, precision or behaviour, too.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; change nothing.")] = False,
    save_plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan there, and change nothing.")
    ] = None,
    plan_file: Annotated[
        Path | None,
        typer.Option("--plan", metavar="FILE", help="Carry out this plan, if what it rests on still holds."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Finish a run that was cut off.")] = False,
    installer: Annotated[
        WhichInstaller, typer.Option(help="auto: uv where there is one, else the environment's pip.")
    ] = WhichInstaller.AUTO,
    index_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Package index, instead of the configured one.")
    ] = None,
    find_links: Annotated[
        list[str] | None, typer.Option(metavar="DIR|URL", help="Where more wheels lie. Repeatable.")
    ] = None,
    no_index: Annotated[
        bool, typer.Option("--no-index", help="Only what --find-links names: no package index is asked.")
    ] = False,
    torch_backend: Annotated[
        str | None, typer.Option(metavar="BACKEND", help="uv's own way to a torch of another CUDA: auto, cu128, cpu.")
    ] = None,
    wheel: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="A wheel that was fetched by hand, for a cure that asks for one. Repeatable."
        ),
    ] = None,
    no_stash: Annotated[
        bool, typer.Option("--no-stash", help="Copy no packages aside: undo then has to install the old ones again.")
    ] = False,
    even_if_used: Annotated[
        bool, typer.Option("--even-if-used", help="Change packages under programs that run from the environment.")
    ] = False,
    wait: LockWait = 0.0,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the recipe behind each step.")] = False,
) -> int:
    """Cure what `check` finds: plan, show, ask, change, prove it by examining again, or put every byte back.

    Exit status: 0 healthy or cured, 1 findings left or declined, 2 wrong usage, 3 could not examine, stale plan or
    lock held, 4 a fix failed and was undone, 5 undoing it failed too.
    """
    shelf_ = shelf.shelf(each(recipes))
    asked = names(only, "--only")
    picked = shelf.Selection(skip=names(skip, "--skip")).pick(shelf_)
    mended = tuple(one.id for one in shelf.Selection(only=asked).pick(shelf_)) if asked else ()
    chosen = tuple(_pair(one) for one in each(remedy))
    assume(FactSet(), each(assumption))
    if save_plan is not None:
        check_output(save_plan, flag="--save-plan")
    named = named_gpu(gpu) if gpu is not None else None
    tried = kernels_command.asked(kernels, each(backend), (), None, None, quick=quick)
    if tried is not None and trace is not None:
        raise BadInput(
            "a traced run or the kernels, not both", about="--trace --kernels", hint="Leave out one of them."
        )
    asked_policy = Policy(unsafe=unsafe, only=mended, remedies=chosen)
    saved = None if plan_file is None else _saved(plan_file)
    if not (yes or dry_run or save_plan or resume) and not sys.stdin.isatty():
        raise BadInput(
            "nobody can be asked: this is no terminal",
            about="attn-doctor fix",
            hint="--yes takes the plan's safe steps without asking; --dry-run shows it.",
        )

    def planned_and_done() -> int:
        with scratch() as folder, progress() as say:
            target = examine_target(
                python if saved is None else saved.python, as_module=started.as_module, folder=folder, timeout=timeout
            )
            session = Session(
                target=target,
                folder=folder,
                recipes=picked,
                acceptances=accepted.read(accept_file) if accept_file else (),
                configs=each(config) if saved is None else tuple(Path(one) for one in saved.configs),
                gpu=named,
                assumptions=each(assumption),
                quick=quick,
                timeout=timeout,
                sources=installers.Sources(
                    index_url=index_url,
                    no_index=no_index,
                    find_links=tuple(place(one) for one in each(find_links)),
                    torch_backend=torch_backend or "",
                ),
                installer=installer,
                stash=not no_stash,
                wheels=tuple(_wheel(one, target) for one in each(wheel)),
                traced=None if trace is None else trace_request(trace, autocast, named),
                kernels=tried,
            )
            if resume:
                return fix_run.resume(session, say, wait=wait)
            homes = () if dry_run or save_plan else known_homes(target, session.configs)
            journal.let_finish(homes, wait=wait)
            known_runs = journal.names(homes)
            policy = replace(asked_policy, wheels=tuple((one.package, one.version) for one in session.wheels))
            facts = session.look("before", say)
            before = session.judged(facts)
            if saved is not None:
                plan = saved
                try:
                    check_plan(plan, prefix=target.prefix, here=Path.cwd(), stash=not no_stash)
                except Refused as error:
                    raise Stale(str(error), about=f"--plan {plan_file}", hint="Make a new plan, here.") from None
                fix_run.check_ground(plan, facts)
            else:
                say("planning")
                here = project_of(Path.cwd().resolve() / "file")
                plan = make.make(
                    before,
                    facts,
                    picked,
                    policy,
                    doctor_version=__version__,
                    python=target.python,
                    prefix=target.prefix,
                    configs=session.configs,
                    resolve=session.resolve(facts, before),
                    projects=(here,) if trace is not None else (),
                    here=here,
                    sealed=target.externally_managed,
                )
        if journal.names(homes) != known_runs:
            # What was looked at may have been half changed.
            raise fix_run.Overtaken("another run began meanwhile", about=str(target.prefix))
        # The spinner is gone: from here on a person reads and answers.
        show(plan, target, verbose=verbose)
        for one in session.wheels:
            if not any(isinstance(step.change, Install) and str(one.path) in step.change.wheels for step in plan.steps):
                print(f"{one.path.name}: no step takes it. --find-links offers wheels to every cure.")  # noqa: T201
        if save_plan is not None:
            replace_file(save_plan, plan_v1.dumps(plan))
            print(f"The plan is in {save_plan}. Nothing was changed.")  # noqa: T201
        if dry_run or save_plan is not None:
            beside = _beside(plan, before)
            if beside:
                print(f"Not asked about here, and an error all the same: {', '.join(beside)}.")  # noqa: T201
            return exit_status.of(before, fail_on=Severity.ERROR, strict=False)
        if not plan.steps:
            return fix_run.left_status(plan)
        unsafe_steps = [step for step in plan.steps if step.safety is not Safety.SAFE]
        if unsafe_steps and not unsafe:
            print(f"The plan holds unsafe steps. {_UNSAFE}")  # noqa: T201
            return Status.FOUND
        if any(isinstance(step.change, Install) for step in plan.steps):
            check_unused(target, ask=not yes, allowed=even_if_used)
        if not yes and not agreed(len(plan.steps)):
            print("Nothing was changed.")  # noqa: T201
            return Status.FOUND
        with scratch() as again, progress() as say:
            return fix_run.carry_out(replace(session, folder=again), plan, before, say, wait=wait)

    for _ in range(_OVERTAKEN if saved is None else 0):
        try:
            return planned_and_done()
        except fix_run.Overtaken as error:
            print(f"Another run was quicker: {error.what}. Planning anew.")  # noqa: T201
    return planned_and_done()


def _beside(plan: Plan, before: Diagnosis) -> list[str]:
    """Errors that --only or --skip keeps out of the plan, and that the exit status counts."""
    named = {one.finding for step in plan.steps for one in step.cures} | {one.finding for one in plan.left}
    errors = [one.id for one in before.findings if one.severity is Severity.ERROR and one.accepted is None]
    return [one for one in dict.fromkeys(errors) if one not in named]


def _saved(file: Path) -> Plan:
    try:
        text = read_input(file, most=64 << 20).decode()
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise BadInput(f"the plan cannot be read: {said}", about=f"--plan {file}") from None
    return plan_v1.loads(text, about=f"--plan {file}")


def _wheel(path: Path, target: Target) -> WheelFile:
    try:
        return wheel_file.read(path, target)
    except Refused as error:
        raise BadInput(
            str(error), about=f"--wheel {path}", hint="`attn-doctor fix --dry-run` says which one fits."
        ) from None


def _pair(text: str) -> tuple[str, str]:
    finding, equals, remedy = text.partition("=")
    if not equals or not finding or not remedy:
        raise BadInput("that names no remedy", about=f"--remedy {text}", hint="Write --remedy FINDING=REMEDY.")
    return finding, remedy
