"""Shared by the commands: reads options, shows progress, writes reports."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from attn_doctor.cli import guard, started
from attn_doctor.errors import BadInput
from attn_doctor.machine.files import replace_file
from attn_doctor.machine.printable import one_line
from attn_doctor.report.picker import Picked
from attn_doctor.report.renderer import Manner, R

if TYPE_CHECKING:
    from rich.status import Status

T = TypeVar("T")


def each(values: list[T] | None) -> tuple[T, ...]:
    """The values of a repeatable option."""
    return tuple(values or ())


def refuse_beside(what: str, *, takes: Collection[str], hint: str) -> None:
    """Raises BadInput for given options that have no effect together with `what`. `takes`: names of parameters that
    have one; --lang has one everywhere.
    """
    flags = [flag for name, flag in started.given.items() if name not in (*takes, "lang")]
    if flags:
        raise BadInput(f"{what} has no use for it", about=" ".join(flags), hint=hint)


def names(values: list[str] | None, flag: str) -> tuple[str, ...]:
    """The names of a repeatable option that also accepts lists.

    Raises BadInput for an empty name, such as an unset variable of a script.
    """
    for value in values or ():
        if not value.replace(",", " ").strip():
            raise BadInput(
                "it names nothing", about=f"{flag} {value!r}", hint="Leave it out, or name a recipe or library."
            )
    return tuple(name.strip() for value in values or () for name in value.split(",") if name.strip())


def put(result: R, picked: Picked[R], *, output: Path | None = None, manner: Manner | None = None) -> None:
    """Writes a result to the requested place, in the chosen format."""
    manner = manner or Manner()
    if output is None:
        try:
            picked.write(result, sys.stdout, manner)
            sys.stdout.flush()
        except BrokenPipeError:
            # `| head` has read enough; the verdict, and with it the exit status, is no other for it.
            guard.close_stdout()
        return
    text = io.StringIO()
    picked.write(result, text, manner)
    replace_file(output, text.getvalue())


class Progress:
    """Progress on stderr, shown only at a terminal."""

    def __init__(self, status: Status | None = None) -> None:
        self._status = status

    def __call__(self, words: str) -> None:
        """Shows it until something else is done."""
        if self._status is not None:
            from rich.text import Text

            self._status.update(Text(one_line(words)))
            self._status.start()

    def rest(self) -> None:
        """Shows nothing until the next message: a person is reading and answering."""
        if self._status is not None:
            self._status.stop()


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """Progress while this lasts."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    from attn_doctor.report.terminal.console import ReportConsole

    with ReportConsole(sys.stderr).status("starting") as status:
        yield Progress(status)


def tell_aside(words: str) -> None:
    """Prints a line on stderr that is not part of the report."""
    print(f"attn-doctor: {words}", file=sys.stderr)  # noqa: T201
