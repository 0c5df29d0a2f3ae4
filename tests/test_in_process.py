"""The command line in the process of the tests leaves everything as it was, and does what a process of its own does."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from tests.conftest import Doctor, Environment, in_process

_PR_GET_CHILD_SUBREAPER = 37  # linux/prctl.h


def _state() -> dict[str, object]:
    flag = ctypes.c_int()
    ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(flag), 0, 0, 0)
    return {
        "folder": Path.cwd(),
        "environment": dict(os.environ),
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals() - {9, 19}},
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "streams": (sys.stdin, sys.stdout, sys.stderr, sys.argv),
        "descriptors": {name: os.readlink(f"/proc/self/fd/{name}") for name in ("0", "1", "2")},
        "open": len(os.listdir("/proc/self/fd")),
        "garbage": gc.get_threshold(),
        "temporary": tempfile.gettempdir(),
        "umask": os.umask(os.umask(0)),
        "subreaper": flag.value,
        "children": Path(f"/proc/self/task/{os.getpid()}/children").read_text(),
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("check", "--bogus"),
        ("fix", "--help"),
        ("explain", "/nothing"),
        ("check", "--", "sh", "-c", "exit 3"),
    ],
    ids=lambda words: words[0],
)
def test_everything_is_as_it_was(doctor: Doctor, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Whatever it was asked, and wherever it ran."""
    before = _state()
    doctor(*arguments, cwd=tmp_path, env={"TMPDIR": str(tmp_path)})

    assert _state() == before


def test_after_code_of_the_patients(doctor: Doctor, environment: object) -> None:
    """Imports and samples have a guard each, with a pipe of its own: all of it is gone."""
    env: Environment = environment()  # type: ignore[operator]
    env.package("x-transformers", "1.30.1", "__version__ = '1.30.1'")
    before = _state()
    run = doctor.check(env)

    assert run.fact("import.x_transformers.outcome") == "imported"
    assert _state() == before


def test_as_in_a_process_of_its_own(doctor: Doctor, tmp_path: Path) -> None:
    """Streams, status and standard input."""
    log = b"RuntimeError: FlashAttention only supports Ampere GPUs or newer.\n"
    for arguments in (("explain", "--gpu", "t4", "-"), ("explain", "/nothing"), ("--help",), ("check", "--", "false")):
        here, there = (
            doctor(*arguments, stdin=log, cwd=tmp_path, own_process=own_process) for own_process in (False, True)
        )
        assert here == there


def test_what_is_read_at_the_start(doctor: Doctor, tmp_path: Path) -> None:
    """A variable of the interpreter's gets a process of its own, which sees it."""
    assert in_process.needs_a_start({"PYTHONPATH": "x"})
    assert in_process.needs_a_start({"LC_ALL": "C"})
    assert not in_process.needs_a_start({"HOME": "x", "SLURM_JOB_ID": None})
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.exit('planted')")

    assert "planted" in doctor("--version", env={"PYTHONPATH": str(tmp_path)}).stderr


def test_the_limit(doctor: Doctor) -> None:
    """A command that takes too long fails the test, and everything is as it was."""
    before = _state()
    with pytest.raises(pytest.fail.Exception, match="took longer than"):
        doctor("check", "--", "sleep", "30", limit=1.0)

    assert _state() == before
