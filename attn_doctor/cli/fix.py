"""`attn-doctor fix`: plan, show, confirm, change under a journal, prove by examining again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from attn_doctor.cli import started
from attn_doctor.cli.declare import Option
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import Assume, Lang, LockWait, Recipes, Skip, Timeout
from attn_doctor.cli.shared import Progress, each, names, progress
from attn_doctor.errors import AttnDoctorError, BadInput
from attn_doctor.fix.journal import run_commands
from attn_doctor.fix.journal.run_plan import NotCured
from attn_doctor.fix.journal.undo import UndoFailed
from attn_doctor.fix.packages.installers import Sources
from attn_doctor.formats import fix_v1
from attn_doctor.model.report import nothing_to_examine
from attn_doctor.probe.kernels.known_kernels import Mode
from attn_doctor.report import language
from attn_doctor.report.words.verdict import as_root
from attn_doctor.version import __version__
from attn_doctor.workflows import kernels as kernel_trials
from attn_doctor.workflows.fix.fix import fix as run_fix
from attn_doctor.workflows.fix.planned import Planned
from attn_doctor.workflows.fix.request import FixEnding, FixRequest, FixResult, Question, WhichInstaller


@guarded
def fix(
    python: Annotated[
        str | None,
        Option(metavar="PATH", help="Interpreter or environment folder to examine and mend (venv, conda, uv)."),
    ] = None,
    quick: Annotated[bool, Option("--quick", help="Look at files only: nothing is imported or run.")] = False,
    config: Annotated[
        list[Path] | None,
        Option(metavar="FILE", help="A training configuration to examine and mend as well. Repeatable."),
    ] = None,
    gpu: Annotated[str | None, Option(metavar="NAME|sm_XY", help="Judge as if this GPU were in the node.")] = None,
    assumption: Assume = None,
    only: Annotated[
        list[str] | None, Option(metavar="NAME", help="Mend only this finding or library. Repeatable.")
    ] = None,
    skip: Skip = None,
    remedy: Annotated[
        list[str] | None,
        Option(metavar="FINDING=REMEDY", help="Take this remedy for that finding. Repeatable."),
    ] = None,
    recipes: Recipes = None,
    accept_file: Annotated[
        Path | None, Option("--accept", metavar="FILE", help="Known findings: they are left as they are.")
    ] = None,
    trace: Annotated[
        str | None,
        Option(metavar="FACTORY", help="Mend what a traced run meets: pkg.module:factory or file.py:factory."),
    ] = None,
    autocast: Annotated[
        str | None, Option(metavar="DTYPE", help="With --trace: run inside torch.autocast of this dtype.")
    ] = None,
    kernels: Annotated[
        Mode | None,
        Option(
            "--kernels", bare="quick", help="Run the attention kernels as well, before and after: `check --kernels`."
        ),
    ] = None,
    backend: Annotated[
        list[str] | None, Option(metavar="NAME", help="With --kernels: this kernel only. Repeatable.")
    ] = None,
    timeout: Timeout = 60.0,
    yes: Annotated[bool, Option("--yes", "-y", help="Take the plan's steps without asking.")] = False,
    unsafe: Annotated[
        bool, Option("--unsafe-fixes", help="Plan steps that change packages, precision or behaviour, too.")
    ] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Show the plan; change nothing.")] = False,
    save_plan: Annotated[Path | None, Option(metavar="FILE", help="Write the plan there, and change nothing.")] = None,
    plan_file: Annotated[
        Path | None,
        Option("--plan", metavar="FILE", help="Carry out this plan, if what it rests on still holds."),
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Finish a run that was cut off.")] = False,
    installer: Annotated[
        WhichInstaller, Option(help="auto: uv where there is one, else the environment's pip.")
    ] = WhichInstaller.AUTO,
    index_url: Annotated[
        str | None, Option(metavar="URL", help="Package index, instead of the configured one.")
    ] = None,
    find_links: Annotated[
        list[str] | None, Option(metavar="DIR|URL", help="Where more wheels lie. Repeatable.")
    ] = None,
    no_index: Annotated[
        bool, Option("--no-index", help="Only what --find-links names: no package index is asked.")
    ] = False,
    torch_backend: Annotated[
        str | None, Option(metavar="BACKEND", help="uv's own way to a torch of another CUDA: auto, cu128, cpu.")
    ] = None,
    wheel: Annotated[
        list[Path] | None,
        Option(metavar="FILE", help="A wheel that was fetched by hand, for a fix that asks for one. Repeatable."),
    ] = None,
    allow_unmet: Annotated[
        bool, Option("--allow-unmet", help="Replace packages although others need the release that is there.")
    ] = False,
    even_if_used: Annotated[
        bool, Option("--even-if-used", help="Change packages under programs that run from the environment.")
    ] = False,
    wait: LockWait = 0.0,
    json_: Annotated[
        bool, Option("--json", help="Print the answer as JSON (attn-doctor/fix/v1) and ask nothing.")
    ] = False,
    verbose: Annotated[bool, Option("--verbose", "-v", help="Show the recipe behind each step.")] = False,
    lang: Lang = None,
) -> int:
    """Cure what `check` finds: plan, show, ask, change, prove it by examining again, or put every byte back.

    Exit status: 0 healthy or cured, 1 findings left or declined, 2 wrong usage, 3 could not examine, stale plan or
    lock held, 4 a fix failed and was undone, 5 undoing it failed too.
    """
    request = FixRequest(
        python=python,
        as_module=started.as_module,
        quick=quick,
        timeout=timeout,
        configs=each(config),
        gpu=gpu,
        assumptions=each(assumption),
        recipes=each(recipes),
        accept=accept_file,
        trace=trace,
        autocast=autocast,
        kernels=kernel_trials.asked(kernels, each(backend), (), None, None, quick=quick),
        only=names(only, "--only"),
        skip=names(skip, "--skip"),
        remedies=tuple(_remedy(one) for one in each(remedy)),
        unsafe=unsafe,
        dry_run=dry_run,
        save_plan=save_plan,
        plan_file=plan_file,
        resume=resume,
        yes=yes,
        installer=installer,
        sources=Sources(
            index_url=index_url,
            no_index=no_index,
            find_links=each(find_links),
            torch_backend=torch_backend or "",
        ),
        wheels=each(wheel),
        allow_unmet=allow_unmet,
        even_if_used=even_if_used,
        wait=wait,
    )
    with progress() as say:
        if json_:
            return _for_a_program(request, say)
        person = _Person(say, quick=quick, verbose=verbose)
        ask = person.answer if sys.stdin.isatty() else None
        result = run_fix(request, ask=ask, show=person.see, say=say, warn=person.hear)
    for line in _ending(result, request):
        print(line)  # noqa: T201
    return result.exit_status


def _for_a_program(request: FixRequest, say: Progress) -> int:
    notes: list[str] = []
    try:
        result = run_fix(request, say=say, warn=notes.append)
    except AttnDoctorError as error:
        say.rest()
        outcome = "put-back" if isinstance(error, NotCured) else "refused"
        sys.stdout.write(
            fix_v1.fix_text(
                outcome="not-put-back" if isinstance(error, UndoFailed) else outcome,
                exit_status=error.exit_status,
                plan=None,
                troubles=fix_v1.said(error),
                notes=notes,
            )
        )
        raise
    run = result.run
    say.rest()
    sys.stdout.write(
        fix_v1.fix_text(
            outcome=result.outcome,
            exit_status=result.exit_status,
            plan=result.plan,
            cured=result.cured,
            run=None if run is None else run.id,
            journal=None if run is None else str(run.folder),
            undo=None if run is None else run_commands.undo(run),
            troubles=result.troubles,
            beside=result.beside,
            notes=notes,
        )
    )
    return result.exit_status


def _remedy(text: str) -> tuple[str, str]:
    """--remedy as (finding, remedy). Raises BadInput."""
    finding, equals, remedy = text.partition("=")
    if not equals or not finding or not remedy:
        raise BadInput("that names no remedy", about=f"--remedy {text}", hint="Write --remedy FINDING=REMEDY.")
    return finding, remedy


class _Person:
    """Who reads and answers, at a terminal. No progress is shown meanwhile."""

    def __init__(self, say: Progress, *, quick: bool, verbose: bool) -> None:
        self._say = say
        self._quick = quick
        self._verbose = verbose
        self._seen: Planned | None = None

    def hear(self, words: str) -> None:
        """A line of its own."""
        self._say.rest()
        print(words)  # noqa: T201

    def see(self, planned: Planned) -> None:
        """The plan, what of the options it has no use for, and at the first plan from these facts what they lack."""
        from attn_doctor.report.terminal import plan as plan_page
        from attn_doctor.report.terminal.console import ReportConsole

        self._say.rest()
        target = planned.target
        console = ReportConsole(sys.stdout)
        console.print(
            language.say(
                "attn-doctor {version} plans for {python} (Python {version2}, {environment_kind}; {because})",
                version=__version__,
                python=target.python,
                version2=target.version,
                environment_kind=target.environment_kind,
                because=language.say_filled(target.because),
            ),
            soft_wrap=True,
        )
        plan_page.write(planned.plan, console, verbose=self._verbose)
        for one in planned.unused_wheels:
            self.hear(
                language.say("{name}: no step takes it. --find-links offers wheels to every fix.", name=one.path.name)
            )
        if self._seen is None or self._seen.facts is not planned.facts:
            nothing = nothing_to_examine(planned.facts, target.dead)
            foreign = as_root(
                planned.facts.value("python.examined_as"), planned.facts.value("python.owner"), quick=self._quick
            )
            for line in filter(
                None, (foreign, nothing and language.say("Nothing to examine here: {nothing}.", nothing=nothing))
            ):
                self.hear(line)
        self._seen = planned

    def answer(self, question: Question) -> bool:
        """Whether the person says yes."""
        one = question.assumed
        if one is not None:
            self.hear(f"{one.finding}: {language.recipe_text(one.finding, one.title)}\n  {one.reason}")
            return self._says_yes(language.say("Mend it all the same?"))
        count = len(question.steps)
        if count < len(question.plan.steps):
            cured = question.steps[0].cures
            self.hear(
                "; ".join(
                    dict.fromkeys(f"{each.finding}: {language.recipe_text(each.finding, each.title)}" for each in cured)
                )
            )
        first = question.steps[0]
        reason = first.why_this_safety
        if first.cures:
            reason = language.recipe_text(first.cures[0].finding, reason)
        if reason:
            self.hear(f"  {language.say(question.steps[0].safety.value)}: {reason}")
        return self._says_yes(
            language.say(
                "Take {more}?",
                more=language.say("this step") if count == 1 else language.say("these {count} steps", count=count),
            )
        )

    def _says_yes(self, question: str) -> bool:
        self._say.rest()
        try:
            answer = input(f"{question} [y/N] ")
        except EOFError:
            return False
        return answer.strip().lower() in ("y", "yes")


def _ending(result: FixResult, request: FixRequest) -> list[str]:
    """How it ended, in lines."""
    match result.ending:
        case FixEnding.SHOWN:
            saved = language.say("The plan is in {save_plan}. Nothing was changed.", save_plan=request.save_plan)
            beside = language.say(
                "Not asked about here, and an error all the same: {beside}.", beside=", ".join(result.beside)
            )
            shown = language.say(
                "Nothing was changed. Without --dry-run it asks about each step, and says how to undo it."
            )
            return [saved if request.save_plan else shown, *([beside] if result.beside else [])]
        case FixEnding.NO_STEPS:
            return []
        case FixEnding.NEEDS_UNSAFE:
            ways = language.say("--unsafe-fixes lets unsafe steps be taken; --dry-run shows the plan alone.")
            return [language.say("The plan holds unsafe steps. {ways}", ways=ways)]
        case FixEnding.DECLINED:
            return [language.say("Nothing was changed.")]
        case FixEnding.NOT_CURED:
            return [language.say("Not fixed; everything was put back:"), *(f"  {line}" for line in result.troubles)]
        case FixEnding.CURED:
            lines = [
                language.say("Fixed, confirmed by a new check: {finding}", finding=finding) for finding in result.cured
            ]
            if result.run is not None:
                lines.append(
                    language.say(
                        "Run {id}; `{undo}` puts everything back.", id=result.run.id, undo=run_commands.undo(result.run)
                    )
                )
            return lines
        case FixEnding.NO_RUN:
            return [language.say("No run was cut off. Nothing was changed.")]
        case FixEnding.TAKEN_BACK:
            return [
                language.say(
                    "The run {id} was being undone: everything is as it was before.",
                    id=result.run.id if result.run else "",
                )
            ]
