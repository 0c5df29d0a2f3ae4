"""`attn-doctor check`: examine, judge, report."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import IO, Annotated, TypeVar

import typer

from attn_doctor import __version__
from attn_doctor.cli import started
from attn_doctor.cli.guard import guarded
from attn_doctor.cookbook import accepted, shelf
from attn_doctor.cookbook.gpus import NamedGpu, named_gpu
from attn_doctor.diagnose.accept import accept
from attn_doctor.diagnose.assume import assume, assume_gpu
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.errors import BadInput
from attn_doctor.machine.files import replace_file
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import Target, examine_target
from attn_doctor.model.facts import FactSet, Origin
from attn_doctor.model.findings import Severity
from attn_doctor.model.report import Examined, Report
from attn_doctor.probe.examine import Wanted, examine
from attn_doctor.report import exit_status
from attn_doctor.wire import report_v1

T = TypeVar("T")


class Format(str, Enum):
    """How the report is written."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


@guarded
def check(
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Interpreter or environment folder to examine (venv, conda, uv)."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Look at files only: nothing is imported or run.")] = False,
    config: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A training configuration to examine as well (LLaMA-Factory). Repeatable."),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(metavar="NAME|sm_XY", help="Judge as if this GPU were in the node: h100, a100, rtx4090, sm_90…"),
    ] = None,
    assumption: Annotated[
        list[str] | None,
        typer.Option("--assume", metavar="FACT=VALUE", help="Judge as if this fact were so. Repeatable."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Judge only this recipe or library. Repeatable.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Leave this recipe or library out. Repeatable.")
    ] = None,
    recipes: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Another folder of recipes to judge by as well. Repeatable."),
    ] = None,
    accept_file: Annotated[
        Path | None,
        typer.Option("--accept", metavar="FILE", help="Known findings: shown as accepted, no longer gating."),
    ] = None,
    fail_on: Annotated[
        Severity, typer.Option(help="Exit with 1 when something at least this bad is found.")
    ] = Severity.ERROR,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 3 when a question stays open.")] = False,
    timeout: Annotated[
        float, typer.Option(min=1.0, max=86400.0, metavar="SECONDS", help="Limit for each import and each sample.")
    ] = 60.0,
    format_: Annotated[Format, typer.Option("--format", help="How the report is written.")] = Format.TEXT,
    json_: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report there instead of to standard output.")
    ] = None,
    show_names: Annotated[
        bool, typer.Option("--show-names", help="Leave user and host names in the markdown report.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every fact and all evidence.")] = False,
) -> int:
    """Examine one environment and this node, and say what is wrong, where, why, and what cures it.

    Exit status: 0 nothing at or above --fail-on, 1 findings, 2 wrong usage, 3 could not examine.
    """
    written = Format.JSON if json_ else format_
    # Everything a person gave is looked at before anything is started.
    shelf_ = shelf.shelf(_each(recipes))
    picked = shelf.Selection(only=_names(only), skip=_names(skip)).pick(shelf_)
    named = named_gpu(gpu) if gpu else None
    acceptances = accepted.read(accept_file) if accept_file else ()
    assume(FactSet(), _each(assumption))
    if output is not None:
        _check_output(output)
    with scratch() as folder, _progress() as say:
        target = examine_target(python, as_module=started.as_module, folder=folder, timeout=timeout)
        facts = examine(
            target,
            Wanted(
                quick=quick,
                timeout=timeout,
                configs=_each(config),
                virtual_gpu=None if named is None else asdict(named),
            ),
            folder=folder,
            say=say,
        )
    facts = _as_if(facts, named, _each(assumption))
    diagnosis = accept(judge(facts, picked), acceptances, today=datetime.now(timezone.utc).date())
    status = exit_status.of(diagnosis, fail_on=fail_on, strict=strict)
    report = Report(
        command="check",
        doctor_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        examined=_examined(target),
        quick=quick,
        assumed=tuple(str(fact.name) for fact in facts.values() if fact.origin is Origin.ASSUMED),
        diagnosis=diagnosis,
        exit_status=int(status),
        facts=facts,
    )
    _write(report, written, output=output, verbose=verbose, masked=not show_names)
    return status


def _as_if(facts: FactSet, gpu: NamedGpu | None, assumptions: tuple[str, ...]) -> FactSet:
    if gpu is not None:
        facts = assume_gpu(facts, gpu)
    return derive(assume(facts, assumptions))


def _examined(target: Target) -> Examined:
    return Examined(
        python=str(target.python),
        version=target.version,
        environment=target.environment_kind,
        because=target.because,
        others=target.others,
    )


def _each(values: list[T] | None) -> tuple[T, ...]:
    return tuple(values or ())


def _names(values: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for value in values or () for name in value.split(",") if name.strip())


def _check_output(file: Path) -> None:
    hint = "Name a file in a folder that can be written."
    if file.is_dir():
        raise BadInput("that is a folder, not a file", about=f"--output {file}", hint=hint)
    if not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise BadInput("the folder is not there or cannot be written", about=f"--output {file}", hint=hint)


def _write(report: Report, form: Format, *, output: Path | None, verbose: bool, masked: bool) -> None:
    if output is None:
        _render(report, form, sys.stdout, verbose=verbose, masked=masked)
        return
    text = io.StringIO()
    _render(report, form, text, verbose=verbose, masked=masked)
    replace_file(output, text.getvalue())


def _render(report: Report, form: Format, stream: IO[str], *, verbose: bool, masked: bool) -> None:
    # Each writer is imported only when it is wanted: rich alone costs as much as reading all metadata.
    if form is Format.JSON:
        stream.write(report_v1.dumps(report))
    elif form is Format.MARKDOWN:
        from attn_doctor.report import markdown

        markdown.write(report, stream, verbose=verbose, masked=masked)
    else:
        from attn_doctor.report import text

        text.write(report, stream, verbose=verbose)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Progress on stderr, only where a person watches."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda words: status.update(words)
