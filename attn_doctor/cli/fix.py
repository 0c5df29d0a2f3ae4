"""`attn-doctor fix`: plan, show, confirm, change under a journal, prove by examining again.

The options and the order of events. What was asked for is read in fix_request.py, the plan made in fix_plan.py, shown
and agreed to in fix_ask.py, carried out in fix_run.py; fix_session.py is the target as all of them see it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import fix_ask, fix_plan, fix_request, fix_run, started
from attn_doctor.cli.fix_request import Request, WhichInstaller
from attn_doctor.cli.fix_session import open_session
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import Assume, LockWait, Recipes, Skip, Timeout
from attn_doctor.cli.shared import each, progress
from attn_doctor.fix.packages import installers
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import examine_target
from attn_doctor.model import exit_status
from attn_doctor.model.exit_status import Status
from attn_doctor.model.findings import Severity
from attn_doctor.model.report import nothing_to_examine
from attn_doctor.planning.choose import Policy
from attn_doctor.probe.kernels.known_kernels import Mode
from attn_doctor.recipes.data.gpu_table import named_gpu
from attn_doctor.report.phrases import as_root

#: How often somebody else may change the environment between the plan and the lock.
_OVERTAKEN = 2


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
    picked, mended = fix_request.picked(recipes, only, skip)
    request = Request(
        recipes=picked,
        policy=Policy(
            unsafe=unsafe,
            only=mended,
            named=fix_request.named(picked, only, remedy),
            remedies=fix_request.remedies(remedy),
        ),
        assumptions=fix_request.assumptions(assumption),
        save_plan=fix_request.writable(save_plan),
        gpu=named_gpu(gpu) if gpu is not None else None,
        kernels=fix_request.kernels_asked(kernels, backend, quick=quick, trace=trace),
        saved=fix_request.saved_plan(plan_file),
        plan_file=plan_file,
        python=python,
        quick=quick,
        configs=each(config),
        accept_file=accept_file,
        trace=trace,
        autocast=autocast,
        timeout=timeout,
        installer=installer,
        sources=installers.Sources(
            index_url=index_url,
            no_index=no_index,
            find_links=each(find_links),
            torch_backend=torch_backend or "",
        ),
        wheels=each(wheel),
        stash=not no_stash,
        yes=yes,
        dry_run=dry_run,
        resume=resume,
        even_if_used=even_if_used,
        wait=wait,
        verbose=verbose,
    )
    # A saved plan is the one that was agreed to: where it is overtaken, no other one takes its place.
    for _ in range(_OVERTAKEN if request.saved is None else 0):
        try:
            return _once(request)
        except fix_run.Overtaken as error:
            print(f"Another run was quicker: {error.what}. Planning anew.")  # noqa: T201
    return _once(request)


def _once(request: Request) -> int:
    """Plans, shows, asks and carries out; gives the exit status.

    Raises Overtaken where somebody else changed the environment meanwhile: nothing was changed here.
    """
    with scratch() as folder, progress() as say:
        python = request.python if request.saved is None else request.saved.python
        target = examine_target(
            python, as_module=started.as_module, folder=folder, timeout=request.timeout, isolated=request.quick
        )
        session = open_session(request, target, folder)
        if request.resume:
            return fix_run.resume(session, say, wait=request.wait)
        made = fix_plan.planned(request, session, say)
    made.check_undisturbed(target)
    # The spinner is gone: from here on a person reads and answers.
    fix_ask.show(made.plan, target, session.wheels, verbose=request.verbose)
    if not (request.shows_only or request.yes or request.saved is not None):
        meant = fix_ask.meant(made.plan)
        if meant:
            with scratch() as again, progress():
                made = fix_plan.with_named(request, replace(session, folder=again), made, meant)
            fix_ask.show(made.plan, target, session.wheels, verbose=request.verbose)
    foreign = as_root(made.facts, quick=request.quick)
    if foreign:
        print(foreign)  # noqa: T201
    nothing = nothing_to_examine(made.facts, target.dead)
    if nothing:
        print(f"Nothing to examine here: {nothing}.")  # noqa: T201
    if request.shows_only:
        fix_ask.keep(request, made.plan, made.before)
        return exit_status.status_of(made.before, fail_on=Severity.ERROR, strict=False, nothing=nothing)
    if not made.plan.steps:
        return fix_run.left_status(made.plan) or (Status.COULD_NOT_EXAMINE if nothing else Status.HEALTHY)
    if not fix_ask.agreed(request, made.plan, target):
        return Status.FOUND
    with scratch() as again, progress() as say:
        return fix_run.carry_out(replace(session, folder=again), made.plan, made.before, say, wait=request.wait)
