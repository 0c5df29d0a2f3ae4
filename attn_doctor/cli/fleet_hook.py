"""`attn-doctor fleet hook`: ready files for schedulers and health checkers."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli import started
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.shared import each, names
from attn_doctor.cli.with_typer import entered, parser_of, readable
from attn_doctor.errors import BadInput
from attn_doctor.fleet.hooks import FILES, TAKES, Hook, Places, written
from attn_doctor.fleet.sampling import Deep
from attn_doctor.machine.candidates import active_environment
from attn_doctor.machine.files import replace_file
from attn_doctor.machine.own_command import words_on_a_node
from attn_doctor.recipes import shelf
from attn_doctor.version import __version__
from attn_doctor.workflows.fleet.standard import expected_nodes


@guarded
def hook(
    which: Annotated[Hook, typer.Argument(metavar="|".join(one.value for one in Hook), help="Which one.")],
    python: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="The environment to examine. Default: the one that `check` would examine here; k8s: the image's "
            "python3; slurm-taskprolog: the one that is active in the job, else its python3.",
        ),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="slurm-job: a finding whose fix you have reviewed, or ID=REMEDY. Repeatable."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="slurm-job: a plan of `fix --save-plan` that you looked at.")
    ] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe-fixes", help="slurm-job: those fixes may change packages, precision or behaviour.")
    ] = False,
    fix_arg: Annotated[
        list[str] | None,
        typer.Option(metavar="ARG", help="slurm-job: one more argument of `fix`, as --find-links=DIR. Repeatable."),
    ] = None,
    check_arg: Annotated[
        list[str] | None, typer.Option(metavar="ARG", help="One more argument of `check`. Repeatable.")
    ] = None,
    deep: Annotated[Deep, typer.Option(help="slurm-job: as in `fleet run`.")] = Deep.AUTO,
    timeout: Annotated[int, typer.Option(min=1, max=86400, metavar="SECONDS", help="Limit for one node.")] = 300,
    image: Annotated[
        str, typer.Option(metavar="IMAGE", help="k8s: the image to examine; attn-doctor has to be in it.")
    ] = "REGISTRY/IMAGE:TAG",
    doctor: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="attn-doctor on the nodes. Default: where this one lies; k8s: the image's."),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            "--nodes", "-w", metavar="NODESET|@FILE", help="k8s: a Job for each of these nodes, pinned to it."
        ),
    ] = None,
    verdicts: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="slurm-healthcheck, slurm-taskprolog: folder of full verdicts (`check --verdicts`)."
        ),
    ] = None,
    install: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the files there instead of printing them.")
    ] = None,
) -> int:
    """Print a ready file, or write it: the job script that takes a cluster from broken to fit, and hooks.

    Nothing of it is put in force: that is the admin's.
    """
    if plan is not None and fix:
        raise BadInput("a plan already says what is fixed", about="--plan and --fix", hint="Give one of them.")
    if plan is not None and not plan.is_file():
        raise BadInput(
            "there is no such plan", about=f"--plan {plan}", hint="`attn-doctor fix --save-plan` writes one."
        )
    _refused(
        which,
        {
            "--check-arg": bool(check_arg),
            "--verdicts": verdicts is not None,
            "--nodes": nodes is not None,
            "--fix": bool(fix),
            "--plan": plan is not None,
            "--unsafe-fixes": unsafe,
            "--fix-arg": bool(fix_arg),
        },
    )
    checked = readable(each(check_arg), flag="--check-arg")
    _known(names(fix, "--fix"), each(fix_arg))
    in_image = which in (Hook.K8S, Hook.K8S_DAEMONSET)
    places = Places(
        version=__version__,
        doctor=words_on_a_node(doctor, in_image=in_image, as_module=started.as_module),
        # A hook always names the environment: the folder in which it is started may belong to root or to anybody.
        python=python or _meant(which),
        reviewed=_reviewed(names(fix, "--fix"), plan, unsafe=unsafe, more=_of_fix(each(fix_arg))),
        # Paths of this machine are nothing to an image.
        check=each(check_arg) if in_image else checked,
        deep=deep.value,
        timeout=timeout,
        image=image,
        nodes=expected_nodes(nodes) or (),
        verdicts=str(verdicts.absolute()) if verdicts is not None else "",
        slurm_conf=os.environ.get("SLURM_CONF", ""),
        folder=str(install.absolute()) if install is not None else "/etc/attn-doctor",
    )
    for name, text in written(which, places).items():
        if install is None:
            if name != FILES[which][0]:
                sys.stdout.write(f"\n# ---- {name} ----\n")
            sys.stdout.write(text)
            continue
        try:
            install.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"the folder cannot be made: {error.strerror}", about=f"--install {install}") from None
        replace_file(install / name, text, chosen=True, mode=0o755 if name.endswith(".sh") else None)
        print(install / name)  # noqa: T201
    return 0


def _meant(which: Hook) -> str:
    """The default environment of a hook: the active one here, the image's own, or the user's own when the hook runs as
    its user."""
    if which in (Hook.K8S, Hook.K8S_DAEMONSET):
        return "python3"
    if which is Hook.SLURM_TASKPROLOG:
        return ""
    return str(active_environment(as_module=started.as_module) or sys.prefix)


def _refused(which: Hook, given: Mapping[str, bool]) -> None:
    for flag, there in given.items():
        if there and flag not in TAKES.get(which, ()):
            those = " and ".join(hook.value for hook, flags in TAKES.items() if flag in flags)
            raise BadInput(f"{which.value} has no use for it", about=flag, hint=f"It is for {those}.")


def _known(fixes: tuple[str, ...], more: tuple[str, ...]) -> None:
    """Raises BadInput for an id that no recipe has, one of the person's own folders included, or for its remedy."""
    words = [part for word in more for part in word.split("=", 1)]
    own = tuple(Path(folder) for flag, folder in itertools.pairwise(words) if flag == "--recipes")
    every = shelf.shelf(own) if fixes else ()
    for one in fixes:
        name, _, remedy = one.partition("=")
        try:
            picked = shelf.Selection(only=(name,)).pick(every)
        except BadInput as error:
            raise BadInput(error.what, about=f"--fix {one}", hint=error.hint) from None
        there = sorted({cure.id for recipe in picked for cure in recipe.remedies})
        if remedy and remedy not in there:
            raise BadInput(
                f"{name} has no remedy {remedy!r}", about=f"--fix {one}", hint=f"There are: {', '.join(there)}."
            )


def _of_fix(words: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments of `fix` with absolute paths; arguments that cannot be parsed are passed on unchanged."""
    command = parser_of("fix")
    try:
        read = command.make_context("fix", list(words), resilient_parsing=True)
    except Exception:  # a user's mistake, which the job would report
        return words
    return entered(words, command.params, read.params)


def _reviewed(fixes: tuple[str, ...], plan: Path | None, *, unsafe: bool, more: tuple[str, ...]) -> tuple[str, ...]:
    words: list[str] = []
    for one in fixes:
        words += ["--only", one.partition("=")[0]]
        if "=" in one:
            words += ["--remedy", one]
    if plan is not None:
        words += ["--plan", str(plan.absolute())]
    if not words:
        if unsafe or more:
            raise BadInput("nothing was reviewed that this could be about", about="fleet hook", hint="Add --fix ID.")
        return ()
    return (*words, *(["--unsafe-fixes"] if unsafe else []), *more)
