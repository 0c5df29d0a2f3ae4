"""`attn-doctor fix`: plan, show, confirm, change under a journal, prove by examining again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from attn_doctor import __version__
from attn_doctor.cli import started
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.shared import as_if, each, names, progress
from attn_doctor.cookbook import accepted, shelf
from attn_doctor.cookbook.gpus import NamedGpu, named_gpu
from attn_doctor.cookbook.recipe import Recipe
from attn_doctor.diagnose.accept import accept
from attn_doctor.diagnose.assume import assume
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.errors import BadInput
from attn_doctor.fix import carry_out as carrying
from attn_doctor.fix import installers, journal, make, planned_set
from attn_doctor.fix.actions import packages
from attn_doctor.fix.allowed import check_plan, project_of
from attn_doctor.fix.apply import Stale, check_files
from attn_doctor.fix.choose import Policy
from attn_doctor.fix.in_use import InUse, using
from attn_doctor.fix.refusal import Refused
from attn_doctor.fix.resume import interrupted, resumed_steps
from attn_doctor.fix.verify import changed_grounds
from attn_doctor.machine.files import check_output, replace_file
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import Target, examine_target
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Acceptance, Diagnosis, Safety, Severity
from attn_doctor.model.plans import Install, Plan
from attn_doctor.probe.examine import Wanted, examine
from attn_doctor.probe.trace_facts import facts_of
from attn_doctor.probe.tracing import check_input, run_trace
from attn_doctor.report import exit_status
from attn_doctor.report.exit_status import Status
from attn_doctor.wire import plan_v1

_UNSAFE = "--unsafe-fixes lets unsafe steps be taken; --dry-run shows the plan alone."


class WhichInstaller(str, Enum):
    """Which installer changes packages."""

    AUTO = "auto"
    PIP = "pip"
    UV = "uv"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """One target, looked at as often as it takes, always in the same way."""

    target: Target
    folder: Path
    recipes: tuple[Recipe, ...]
    acceptances: tuple[Acceptance, ...]
    configs: tuple[Path, ...]
    gpu: NamedGpu | None
    assumptions: tuple[str, ...]
    quick: bool
    timeout: float
    sources: installers.Sources
    installer: WhichInstaller
    traced: Mapping[str, Any] | None = None
    """What the tracer is asked to run; None where the environment itself is examined."""

    def look(self, name: str, say: Callable[[str], None]) -> FactSet:
        """Examines it."""
        folder = self.folder / name
        folder.mkdir()
        if self.traced is not None:
            return self._trace(folder, self.traced, say, must_finish=name.startswith("after"))
        facts = examine(
            self.target,
            Wanted(
                quick=self.quick,
                timeout=self.timeout,
                configs=self.configs,
                virtual_gpu=None if self.gpu is None else asdict(self.gpu),
            ),
            folder=folder,
            say=say,
        )
        return as_if(facts, self.gpu, self.assumptions)

    def _trace(
        self, folder: Path, request: Mapping[str, Any], say: Callable[[str], None], *, must_finish: bool
    ) -> FactSet:
        facts = examine(self.target, Wanted(quick=True, configs=self.configs), folder=folder, say=say)
        traced = run_trace(self.target, request, timeout=max(self.timeout, 300.0), folder=folder, say=say)
        check_input(traced.trace, f"--trace {request['target']}")
        if must_finish and traced.trace.outcome != "finished":
            # A run that ends early meets no broken call, which is no proof that there is none.
            raise Stale("the traced run does not come to its end", about=traced.trace.error or traced.trace.outcome)
        return derive(FactSet([*as_if(facts, self.gpu, self.assumptions).values(), *facts_of(traced.trace)]))

    def judged(self, facts: FactSet) -> Diagnosis:
        """By every recipe, so that what a cure brings up is seen, whatever was asked for with --only."""
        return accept(judge(facts, self.recipes), self.acceptances, today=datetime.now(timezone.utc).date())

    def find(self) -> installers.Installer:
        """The installer; raises Refused."""
        private = self.folder / "installer"
        private.mkdir(exist_ok=True)
        return installers.find(self.installer.value, self.target, self.sources, private)

    def resolve(self, facts: FactSet, before: Diagnosis) -> make.Resolve:
        """Asks the installer, and judges what it would put in by the same recipes before anything is installed."""

        def ask(wish: make.Wish) -> Install:
            found = packages.resolve(wish, self.find, stash=True)
            planned_set.check(found, facts, before, lambda these: self.judged(derive(these)))
            return found

        return ask


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
    assumption: Annotated[
        list[str] | None, typer.Option("--assume", metavar="FACT=VALUE", help="Judge as if this fact were so.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Mend only this finding or library. Repeatable.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Leave this recipe or library out. Repeatable.")
    ] = None,
    remedy: Annotated[
        list[str] | None,
        typer.Option(metavar="FINDING=REMEDY", help="Take this remedy for that finding. Repeatable."),
    ] = None,
    recipes: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="Another folder of recipes. Repeatable.")
    ] = None,
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
    timeout: Annotated[
        float, typer.Option(min=1.0, max=86400.0, metavar="SECONDS", help="Limit for each import and each sample.")
    ] = 60.0,
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
    even_if_used: Annotated[
        bool, typer.Option("--even-if-used", help="Change packages under programs that run from the environment.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="Wait for another run that holds the lock.")
    ] = 0.0,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the recipe behind each step.")] = False,
) -> int:
    """Cure what `check` finds: plan, show, ask, change, prove it by examining again, or put every byte back.

    Exit status: 0 healthy or cured, 1 findings left or declined, 2 wrong usage, 3 could not examine, stale plan or
    lock held, 4 a fix failed and was undone, 5 undoing it failed too.
    """
    shelf_ = shelf.shelf(each(recipes))
    asked = names(only)
    picked = shelf.Selection(skip=names(skip)).pick(shelf_)
    mended = tuple(one.id for one in shelf.Selection(only=asked).pick(shelf_)) if asked else ()
    chosen = tuple(_pair(one) for one in each(remedy))
    assume(FactSet(), each(assumption))
    if save_plan is not None:
        check_output(save_plan)
    named = named_gpu(gpu) if gpu is not None else None
    policy = Policy(unsafe=unsafe, only=mended, remedies=chosen)
    saved = None if plan_file is None else _saved(plan_file)
    if not (yes or dry_run or save_plan or resume) and not sys.stdin.isatty():
        raise BadInput(
            "nobody can be asked: this is no terminal",
            about="attn-doctor fix",
            hint="--yes takes the plan's safe steps without asking; --dry-run shows it.",
        )
    with scratch() as folder, progress() as say:
        target = examine_target(
            python if saved is None else saved.python, as_module=started.as_module, folder=folder, timeout=timeout
        )
        session = _Session(
            target=target,
            folder=folder,
            recipes=picked,
            acceptances=accepted.read(accept_file) if accept_file else (),
            configs=each(config) if saved is None else tuple(Path(one) for one in saved.configs),
            gpu=named,
            assumptions=each(assumption),
            quick=quick,
            timeout=timeout,
            sources=installers.Sources(index_url=index_url, no_index=no_index, find_links=each(find_links)),
            installer=installer,
            traced=None if trace is None else _request(trace, autocast, named),
        )
        if resume:
            return _resume(session, say, wait=wait)
        facts = session.look("before", say)
        before = session.judged(facts)
        if saved is not None:
            plan = saved
            try:
                check_plan(plan, prefix=target.prefix, here=Path.cwd())
            except Refused as error:
                raise Stale(str(error), about=f"--plan {plan_file}", hint="Make a new plan, here.") from None
            _check_ground(plan, facts)
        else:
            say("planning")
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
                projects=(project_of(Path.cwd().resolve() / "file"),) if trace is not None else (),
            )
    # The spinner is gone: from here on a person reads and answers.
    _show(plan, target, verbose=verbose)
    if save_plan is not None:
        replace_file(save_plan, plan_v1.dumps(plan))
        print(f"The plan is in {save_plan}. Nothing was changed.")  # noqa: T201
    if dry_run or save_plan is not None:
        return exit_status.of(before, fail_on=Severity.ERROR, strict=False)
    if not plan.steps:
        return _left_status(plan)
    unsafe_steps = [step for step in plan.steps if step.safety is not Safety.SAFE]
    if unsafe_steps and not unsafe:
        print(f"The plan holds unsafe steps. {_UNSAFE}")  # noqa: T201
        return Status.FOUND
    if any(isinstance(step.change, Install) for step in plan.steps):
        _check_unused(target, ask=not yes, allowed=even_if_used)
    if not yes and not _agreed(len(plan.steps)):
        print("Nothing was changed.")  # noqa: T201
        return Status.FOUND
    with scratch() as again, progress() as say:
        return _carry_out(_moved(session, again), plan, before, say, wait=wait)


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


def _moved(session: _Session, folder: Path) -> _Session:
    return replace(session, folder=folder)


def _carry_out(session: _Session, plan: Plan, before: Diagnosis, say: Callable[[str], None], *, wait: float) -> int:
    home, homes = _homes(plan)
    with journal.held(homes, wait=wait):
        _no_other_run(homes)
        # Again under the lock: somebody may have been quicker between the question and the answer.
        _check_ground(plan, session.look("locked", lambda _: None))
        check_files(plan)
        say("changing")
        outcome = carrying.carry_out(
            plan,
            plan_v1.dumps(plan),
            home=home,
            before=before,
            install=lambda change, run, number: packages.apply(
                change, run, number, installer=_installer(session, change)
            ),
            examine=lambda: _again(session, say),
        )
    return _told(outcome, plan)


def _installer(session: _Session, change: Install) -> installers.Installer:
    try:
        found = installers.find(change.installer, session.target, session.sources, _made(session.folder / "installer"))
    except Refused as error:
        raise Stale(str(error), about=str(session.target.python), hint="Make a new plan.") from None
    sources = session.sources
    if sources == installers.Sources():
        sources = installers.Sources(index_url=change.index_url, no_index=change.no_index, find_links=change.find_links)
    return replace(found, sources=sources)


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _again(session: _Session, say: Callable[[str], None]) -> Diagnosis:
    say("examining again")
    number = len(list(session.folder.glob("after*")))
    return session.judged(session.look(f"after{number}", say))


def _homes(plan: Plan) -> tuple[Path, tuple[Path, ...]]:
    prefix = Path(plan.prefix)
    installs = any(isinstance(step.change, Install) for step in plan.steps)
    home = journal.home_of(prefix, plan.projects, installs=installs)
    projects = {Path(root) for root in plan.projects if any(Path(file).is_relative_to(root) for file in plan.files)}
    inside = any(Path(file).is_relative_to(prefix) for file in plan.files)
    return home, tuple({home, *projects, *({prefix} if installs or inside else ())})


def _no_other_run(homes: tuple[Path, ...]) -> None:
    for home in homes:
        run = interrupted(home)
        if run is not None:
            raise Stale(
                "an earlier run was cut off",
                about=str(run.folder),
                hint="`attn-doctor fix --resume` finishes it, `attn-doctor undo` puts everything back.",
            )


def _check_ground(plan: Plan, facts: FactSet) -> None:
    changed = changed_grounds(plan, facts)
    if changed:
        raise Stale("the facts that the plan rests on have changed", about="\n".join(changed), hint="Make a new plan.")


def _resume(session: _Session, say: Callable[[str], None], *, wait: float) -> int:
    from attn_doctor.cli.undo import known_homes

    homes = known_homes(session.target, session.configs)
    with journal.held(tuple(home for home in homes if (home / journal.FOLDER).is_dir()), wait=wait):
        run = next((found for home in homes if (found := interrupted(home)) is not None), None)
        if run is None:
            print("No run was cut off. Nothing was changed.")  # noqa: T201
            return Status.HEALTHY
        plan, done = resumed_steps(run)
        if plan is None:
            print(f"The run {run.id} was being undone: everything is as it was before.")  # noqa: T201
            return Status.FIX_UNDONE
        going = replace(session, configs=tuple(Path(one) for one in plan.configs))
        before = _as_planned(plan)
        outcome = carrying.go_on(
            plan,
            run,
            before=before,
            install=lambda change, of, number: packages.apply(change, of, number, installer=_installer(going, change)),
            examine=lambda: _again(going, say),
            done=done,
        )
    return _told(outcome, plan)


def _as_planned(plan: Plan) -> Diagnosis:
    """What a plan knows of the diagnosis it was made from: enough to see whether its own findings are gone."""
    from attn_doctor.model.findings import Finding

    every = {
        (one.finding, one.subjects): Finding(
            id=one.finding, severity=Severity(one.severity), title=one.title, subjects=one.subjects
        )
        for step in plan.steps
        for one in step.cures
    }
    rest = [Finding(id=one.finding, severity=Severity(one.severity), title=one.title) for one in plan.left]
    return Diagnosis(findings=(*every.values(), *rest))


def _told(outcome: carrying.Outcome, plan: Plan) -> int:
    if not outcome.cured:
        print("Not cured, and put back:")  # noqa: T201
        for line in outcome.troubles:
            print(f"  {line}")  # noqa: T201
        return Status.FIX_UNDONE
    for finding in dict.fromkeys(cured.finding for step in plan.steps for cured in step.cures):
        print(f"Cured, seen by examining again: {finding}")  # noqa: T201
    print(f"Run {outcome.run.id}; `attn-doctor undo {outcome.run.id}` puts everything back.")  # noqa: T201
    return _left_status(plan)


def _left_status(plan: Plan) -> int:
    """Errors that stay gate as in `check`; so does what only waits for --unsafe-fixes."""
    gates = any(one.needs_unsafe or one.severity == Severity.ERROR.value for one in plan.left)
    return Status.FOUND if gates else Status.HEALTHY


def _saved(file: Path) -> Plan:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the plan cannot be read: {error}", about=f"--plan {file}") from None
    return plan_v1.loads(text, about=f"--plan {file}")


def _request(what: str, autocast: str | None, gpu: NamedGpu | None) -> dict[str, Any]:
    """For the tracer, as `attn-doctor trace` asks it."""
    half = {"fp16": "float16", "half": "float16", "bf16": "bfloat16"}
    dtype = half.get((autocast or "").lower(), autocast)
    if dtype not in (None, "float16", "bfloat16"):
        raise BadInput(f"{autocast!r} is no dtype for autocast", about=f"--autocast {autocast}", hint="fp16 or bf16.")
    if ":" not in what:
        raise BadInput("that is no factory", about=f"--trace {what}", hint="Write file.py:factory.")
    return {
        "kind": "factory", "target": what, "args": [], "kwargs": {}, "dtype": None, "autocast": dtype, "attn": None,
        "backward": False, "calls": None, "rules": "auto", "trust_remote_code": False, "compile_kernels": False,
        "gpu": None if gpu is None else {key: value for key, value in asdict(gpu).items() if value is not None},
        "cwd": str(Path.cwd()), "sys_path": [str(Path.cwd())],
    }  # fmt: skip


def _pair(text: str) -> tuple[str, str]:
    finding, equals, remedy = text.partition("=")
    if not equals or not finding or not remedy:
        raise BadInput("that names no remedy", about=f"--remedy {text}", hint="Write --remedy FINDING=REMEDY.")
    return finding, remedy


def _agreed(count: int) -> bool:
    try:
        answer = input(f"Take {'this step' if count == 1 else f'these {count} steps'}? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _show(plan: Plan, target: Target, *, verbose: bool) -> None:
    from rich.console import Console

    from attn_doctor.report import plan_text

    console = Console(highlight=False, markup=False, emoji=False)
    console.print(
        f"attn-doctor {__version__} plans for {target.python} "
        f"(Python {target.version}, {target.environment_kind}; {target.because})",
        soft_wrap=True,
    )
    plan_text.write(plan, console, verbose=verbose)
