"""`attn-doctor explain`: what an error in a log is, why it happens, how sure that is, and what cures it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor import __version__
from attn_doctor.cli import started
from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import Assume, FailOn, HowWritten, Json, Only, OutputFile, Recipes, Skip, Strict
from attn_doctor.cli.shared import Format, each, examined, names, progress, write_report
from attn_doctor.cookbook import shelf
from attn_doctor.cookbook.gpus import named_gpu
from attn_doctor.cookbook.recipe import Recipe
from attn_doctor.diagnose.assume import assume, assume_gpu
from attn_doctor.diagnose.log.explain import Refuted
from attn_doctor.diagnose.log.explain import explain as explain_logs
from attn_doctor.diagnose.log.match import Patterns
from attn_doctor.diagnose.log.scan import Scanned, Scanner
from attn_doctor.errors import BadInput
from attn_doctor.machine import faults
from attn_doctor.machine.files import check_output, read_input
from attn_doctor.machine.scratch import scratch
from attn_doctor.machine.target import examine_target
from attn_doctor.model.facts import FactSet, Origin
from attn_doctor.model.findings import Severity
from attn_doctor.model.report import Examined, LogRead, Report
from attn_doctor.probe import logs
from attn_doctor.probe.examine import Wanted, examine
from attn_doctor.report import exit_status
from attn_doctor.wire import report_v1

#: Nothing was examined: the log may be of any machine.
NOBODY = Examined(python="", version="", environment="", because="")


@guarded
def explain(
    named: Annotated[
        list[str] | None, typer.Argument(metavar="LOG...", help="Log files, folders of them, or - for standard input.")
    ] = None,
    here: Annotated[
        bool, typer.Option("--here", help="The log is of this node: judge by its facts (looks at files only).")
    ] = False,
    python: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The log is of this interpreter or environment, on this node: as --here."),
    ] = None,
    facts_file: Annotated[
        Path | None,
        typer.Option("--facts", metavar="REPORT", help="Judge by the facts of a report: `check --json` of that node."),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME|sm_XY", help="Judge as if the log came from this GPU.")
    ] = None,
    assumption: Assume = None,
    only: Only = None,
    skip: Skip = None,
    recipes: Recipes = None,
    fail_on: FailOn = Severity.ERROR,
    strict: Strict = False,
    format_: HowWritten = Format.TEXT,
    json_: Json = False,
    output: OutputFile = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="All evidence, and what was looked for.")] = False,
) -> int:
    """Explain the errors in logs: what it is, why, how sure, and what cures it.

    Nothing of this machine is looked at unless --here or --python says that the log is from it.
    Exit status: 0 nothing known at or above --fail-on, 1 something known, 2 wrong usage, 3 nothing known in a log
    that could not be read to its end.
    """
    picked = shelf.Selection(only=names(only, "--only"), skip=names(skip, "--skip")).pick(shelf.shelf(each(recipes)))
    if output is not None:
        check_output(output)
    base, whose = _base(here or python is not None, python, facts_file)
    base = as_if_partly(base, gpu, each(assumption))
    with progress() as say:
        report = explained(logs.find(named or ()), picked, base, whose, fail_on=fail_on, strict=strict, say=say)
    write_report(report, Format.JSON if json_ else format_, output=output, verbose=verbose, masked=True)
    return report.exit_status


def explained(
    found: Iterable[logs.Log],
    recipes: tuple[Recipe, ...],
    base: FactSet,
    whose: Examined,
    *,
    fail_on: Severity = Severity.ERROR,
    strict: bool = False,
    say: object = None,
) -> Report:
    """Looks through the logs and makes the report."""
    found = tuple(found)
    scanner = Scanner(Patterns(recipes))
    scanned, read = [], []
    for log in found:
        if callable(say):
            say(f"reading {log.name}")
        one = scanner.scan(log.name, log.chunks())
        scanned.append(one)
        line, text = one.last_failure or (None, "")
        read.append(
            LogRead(
                name=log.name,
                lines=one.lines,
                failures=one.failures,
                unknown_line=line,
                unknown=text,
                note="; ".join(filter(None, (log.note, _endless(one)))),
            )
        )
    told = explain_logs(scanned, base)
    refuted = {one.log: one for one in reversed(told.refuted)}
    read = [_with_refuted(one, refuted[one.name]) if one.name in refuted else one for one in read]
    status = exit_status.of(told.diagnosis, fail_on=fail_on, strict=strict, own_faults=bool(faults.met()))
    if status == exit_status.Status.HEALTHY and any(log.broken for log in found):
        status = exit_status.Status.COULD_NOT_EXAMINE
    return Report(
        command="explain",
        doctor_version=__version__,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        examined=whose,
        quick=True,
        assumed=tuple(str(fact.name) for fact in told.facts.values() if fact.origin is Origin.ASSUMED),
        diagnosis=told.diagnosis,
        exit_status=int(status),
        facts=told.facts,
        logs=tuple(read),
        own_faults=faults.met(),
        looked_for=tuple(recipe.id for recipe in recipes if recipe.logs),
    )


def _endless(one: Scanned) -> str:
    if one.cut_line is None:
        return ""
    size = f"{one.cut_length / 1e6:.1f} million" if one.cut_length >= 1e6 else f"{one.cut_length:,}"
    return (
        f"line {one.cut_line} has about {size} characters and was looked at in pieces: only a message at its "
        "beginning, at its end or after a carriage return is seen in it"
    )


def _with_refuted(log: LogRead, refuted: Refuted) -> LogRead:
    """The log with its first message that is known and cannot be what it says."""
    note = (
        f"line {refuted.line} has the words of {' and '.join(refuted.recipes)}, "
        "and what is known of the machine speaks against that"
    )
    return replace(
        log,
        note=f"{log.note}; {note}" if log.note else note,
        unknown_line=log.unknown_line or refuted.line,
        unknown=log.unknown or refuted.quoted,
    )


def as_if_partly(base: FactSet, gpu: str | None, assumptions: tuple[str, ...]) -> FactSet:
    """The facts with what a person assumes. Unlike in `check`, what they leave out is not known rather than absent:
    a torch that is named says nothing of a triton that is not."""
    facts = assume(base if gpu is None else assume_gpu(base, named_gpu(gpu)), assumptions)
    return FactSet(fact for fact in facts.values() if fact.name.kind != "listed" or fact.origin is not Origin.ASSUMED)


def _base(here: bool, python: str | None, facts_file: Path | None) -> tuple[FactSet, Examined]:
    if here and facts_file is not None:
        raise BadInput(
            "the log is of this node or of the report's",
            about=f"--here and --facts {facts_file}",
            hint="Leave one of them out.",
        )
    if facts_file is not None:
        try:
            text = read_input(facts_file, most=report_v1.LARGEST).decode()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(
                f"the report cannot be read: {getattr(error, 'strerror', None) or error}",
                about=f"--facts {facts_file}",
                hint="Give a file written by `attn-doctor check --json`.",
            ) from None
        report = report_v1.loads(text, about=f"--facts {facts_file}")
        return report.facts, report.examined
    if not here:
        return FactSet(), NOBODY
    with scratch() as folder, progress() as say:
        target = examine_target(python, as_module=started.as_module, folder=folder, timeout=60.0, isolated=True)
        return examine(target, Wanted(quick=True), folder=folder, say=say), examined(target)
