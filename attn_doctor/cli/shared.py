"""What commands share: options read, progress shown, reports written."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import IO, TypeVar

import typer

from attn_doctor.cli import guard
from attn_doctor.cookbook.gpus import NamedGpu
from attn_doctor.diagnose import fingerprint
from attn_doctor.diagnose.assume import assume, assume_gpu
from attn_doctor.diagnose.derived import derive
from attn_doctor.errors import BadInput
from attn_doctor.machine import faults
from attn_doctor.machine.files import replace_file
from attn_doctor.machine.target import Target
from attn_doctor.model.facts import FactSet
from attn_doctor.model.fingerprint import of as fingerprint_of
from attn_doctor.model.identity import Cohort, Identity
from attn_doctor.model.report import Examined, Report
from attn_doctor.probe.identity import boot_id, environment_name, node_name
from attn_doctor.probe.known_packages import BY_NAME
from attn_doctor.wire import report_v1

T = TypeVar("T")


class Format(str, Enum):
    """How the report is written."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def as_if(facts: FactSet, gpu: NamedGpu | None, assumptions: tuple[str, ...]) -> FactSet:
    """The facts with the named GPU and the assumptions in place, derived ones computed anew."""
    if gpu is not None:
        facts = assume_gpu(facts, gpu)
    return derive(assume(facts, assumptions))


def examined(target: Target) -> Examined:
    """The target as a report names it."""
    return Examined(
        python=str(target.python),
        version=target.version,
        environment=target.environment_kind,
        because=target.because,
        dead=target.dead,
        others=target.others,
    )


def identify(target: Target, facts: FactSet, environment: Mapping[str, str], *, seconds: float) -> Identity:
    """Who the report is about. `facts` as they were probed, before anything is assumed."""
    node = node_name(environment)
    named = environment_name(target, environment, node)
    home = environment.get("HOME", "")
    places = fingerprint.Places(
        folders=(
            (named.prefix, "prefix"), (str(target.prefix.resolve()), "prefix"),
            (str(target.told["base_prefix"]), "base_prefix"), (home, "home"),
        ),
        hosts=(node.name, node.hostname, node.name.partition(".")[0], node.hostname.partition(".")[0]),
        users=(environment.get("USER", ""), environment.get("LOGNAME", ""), Path(home).name),
    )  # fmt: skip

    def cohort(facts: FactSet) -> Cohort:
        partition = environment.get("SLURM_JOB_PARTITION") or None
        return fingerprint.cohort_of(facts, partition=partition, environment=named.id)

    return Identity(
        node=node,
        environment=named,
        cohort=faults.survive("naming of the cohort", lambda: cohort(facts), lambda _reason: cohort(FactSet())),
        fingerprint=faults.survive(
            "taking of the fingerprint",
            lambda: fingerprint.of(facts, packages=BY_NAME, places=places),
            lambda _reason: fingerprint_of({}),
        ),
        volatile={
            "gpu_uuids": [facts.text(f"gpu.{index}.uuid") for index in facts.subjects("gpu")],
            "boot_id": boot_id(),
            "slurm_job": environment.get("SLURM_JOB_ID"),
            "seconds": round(seconds, 3),
        },
    )


def each(values: list[T] | None) -> tuple[T, ...]:
    """The values of a repeatable option."""
    return tuple(values or ())


def refuse_beside(context: typer.Context, what: str, *, takes: Collection[str], hint: str) -> None:
    """Raises BadInput for options that a person gave and `what` would pass over. `takes`: names of parameters."""
    flags = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in takes
        and getattr(context.get_parameter_source(parameter.name or ""), "name", "") == "COMMANDLINE"
    ]
    if flags:
        raise BadInput(f"{what} has no use for it", about=" ".join(flags), hint=hint)


def names(values: list[str] | None, flag: str) -> tuple[str, ...]:
    """The names of a repeatable option that also takes lists.

    Raises BadInput for one that names nothing, such as a variable of a script that is not set.
    """
    for value in values or ():
        if not value.replace(",", " ").strip():
            raise BadInput(
                "it names nothing", about=f"{flag} {value!r}", hint="Leave it out, or name a recipe or library."
            )
    return tuple(name.strip() for value in values or () for name in value.split(",") if name.strip())


def write_report(report: Report, form: Format, *, output: Path | None, verbose: bool, masked: bool) -> None:
    """Writes the report where the person wants it."""
    if output is None:
        try:
            _render(report, form, sys.stdout, verbose=verbose, masked=masked)
            sys.stdout.flush()
        except BrokenPipeError:
            # `| head` has read enough; the verdict, and with it the exit status, is no other for it.
            guard.close_stdout()
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
    elif report.command == "explain":
        from attn_doctor.report import explain_text

        explain_text.write(report, stream, verbose=verbose)
    else:
        from attn_doctor.report import text

        text.write(report, stream, verbose=verbose)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Progress on stderr, only where a person watches."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield lambda words: status.update(words)
