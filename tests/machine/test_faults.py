"""A part of attn-doctor that fails: its reason, its log, and what is no fault of ours."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.machine import faults


def fails(error: BaseException) -> str:
    """What becomes of a part that raises it."""

    def work() -> str:
        raise error

    return faults.survive("part", work, lambda reason: reason)


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Logs go to the test's folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_reason_names_the_log(logs: Path) -> None:
    """Which part, what it said, and where the log with the traceback is."""
    with faults.collected() as own:
        reason = fails(ZeroDivisionError("planted"))

    (log,) = logs.glob("attn-doctor-bug-*.log")
    assert reason == f"attn-doctor's own part failed: ZeroDivisionError: planted; log {log}"
    assert "in fails" in log.read_text() or "in work" in log.read_text()
    assert [(one.part, one.error, one.log) for one in own] == [("part", "ZeroDivisionError: planted", str(log))]


def test_equal_faults_share_a_log(logs: Path) -> None:
    """A thousand reports that fail alike are one log."""
    with faults.collected() as own:
        for _ in range(1000):
            fails(ValueError("the same"))

    assert len(own) == len(list(logs.iterdir())) == 1


def test_a_refusal_of_the_machine_is_no_fault_of_ours(logs: Path) -> None:
    """An unreadable folder is reported as such, without a log."""
    with faults.collected() as own:
        reason = fails(PermissionError(errno.EACCES, "Permission denied", "/secret"))

    assert (reason, own, list(logs.iterdir())) == ("Permission denied: /secret", [], [])


@pytest.mark.parametrize(
    "error",
    [BadInput("wrong"), OSError(errno.ENOSPC, "No space left on device"), BrokenPipeError(), KeyboardInterrupt()],
    ids=lambda error: type(error).__name__,
)
def test_what_is_everybody_s_matter_goes_on(error: BaseException) -> None:
    """A person's mistake, a full disk, a closed pipe and ^C end the command."""
    with faults.collected() as own, pytest.raises(type(error)):
        fails(error)

    assert own == []


def test_nothing_is_caught_outside() -> None:
    """A program that calls a part by itself sees the exception."""
    with pytest.raises(ZeroDivisionError):
        fails(ZeroDivisionError())
    assert faults.met() == ()
