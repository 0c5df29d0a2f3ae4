"""The command line run in the process of the tests, and everything of that process as it was afterwards.

What only a process of its own can show stays one: what is imported at the start, signals and who gets them, what an
interpreter reads before any code of ours runs, limits of resources, ranks.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, NoReturn

import pytest

from attn_doctor import __main__ as entry
from attn_doctor.cli import started

#: Variables that the interpreter, its C library or the loader read once, when a process starts.
_READ_AT_THE_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ", "MALLOC_", "GLIBC_")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD, signal.SIGPIPE)


def needs_a_start(environment: Mapping[str, str | None]) -> bool:
    """Whether one of these variables does something only to a process that starts with it."""
    return any(name.startswith(_READ_AT_THE_START) for name in environment)


def run(
    arguments: tuple[str, ...],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdin: bytes,
    limit: float,
    as_module: bool = True,
) -> tuple[int, bytes, bytes]:
    """`python -m attn_doctor ARGUMENTS` here, or `attn-doctor`, which looks for the environment that is active; its
    status, standard output and standard error."""
    with (
        tempfile.TemporaryFile() if stdin else Path(os.devnull).open("rb") as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        if stdin:
            given.write(stdin)
            given.seek(0)
        with _as_was(), _streams(given, out, err), _surroundings(cwd, environment), _limited(limit):
            sys.argv = [entry.__file__, *arguments]
            there = _children()
            try:
                status = entry.main(as_module=as_module)
            except BaseException:  # over the limit: what it started would outlive its test
                for pid in _children() - there:
                    with contextlib.suppress(ProcessLookupError, ChildProcessError):
                        os.kill(pid, signal.SIGKILL)
                        os.waitpid(pid, 0)
                raise
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
        out.seek(0)
        err.seek(0)
        return status, out.read(), err.read()


def _children() -> set[int]:
    return {int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()}


@contextlib.contextmanager
def _as_was() -> Iterator[None]:
    """What a command sets once for its whole process."""
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    thresholds, argv = gc.get_threshold(), sys.argv
    started.in_command, started.given = False, {}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        gc.set_threshold(*thresholds)
        sys.argv = argv
        started.as_module = started.in_command = False
        started.given = {}


@contextlib.contextmanager
def _streams(given: IO[bytes], out: IO[bytes], err: IO[bytes]) -> Iterator[None]:
    """The three streams, by their numbers too: what a command starts inherits those."""
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in range(3)]
    try:
        for number, stream in enumerate((given, out, err)):
            os.dup2(stream.fileno(), number)
        sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
        yield
    finally:
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.close()  # the number stays open
        sys.stdin, sys.stdout, sys.stderr = before
        for number, old in enumerate(kept):
            os.dup2(old, number)
            os.close(old)


@contextlib.contextmanager
def _surroundings(cwd: Path, environment: Mapping[str, str]) -> Iterator[None]:
    variables, folder, temporary = dict(os.environ), Path.cwd(), tempfile.tempdir
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    tempfile.tempdir = None  # found anew where TMPDIR is another one
    try:
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        tempfile.tempdir = temporary


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """A failure of the test after so long."""

    def too_long(*_: object) -> NoReturn:
        pytest.fail(f"the command took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
