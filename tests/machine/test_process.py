"""Processes: bounded, ended whole, their last words kept."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from attn_doctor.errors import TargetUnusable
from attn_doctor.machine.process import Running


def run(tmp_path: Path, code: str, timeout: float = 20.0):
    return Running([sys.executable, "-c", code], folder=tmp_path, name="child").wait(timeout)


def test_ended_by_itself(tmp_path: Path) -> None:
    """Status and output."""
    ended = run(tmp_path, "import sys; print('out'); sys.stderr.write('err'); sys.exit(3)")

    assert (ended.status, ended.signal, ended.timed_out) == (3, None, False)
    assert (ended.stdout, ended.stderr) == ("out\n", "err")
    assert ended.ended() == "ended with status 3"


def test_ended_by_a_signal(tmp_path: Path) -> None:
    """A crash is told from an exit."""
    ended = run(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")

    assert (ended.status, ended.signal) == (None, 11)
    assert ended.ended() == "was ended by SIGSEGV"


def test_a_hang_takes_its_children_along(tmp_path: Path) -> None:
    """At the timeout the whole process group goes."""
    code = (
        "import subprocess, sys, time; sleeper = [sys.executable, '-c', 'import time; time.sleep(600)'];"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(subprocess.Popen(sleeper).pid)); time.sleep(600)"
    )
    running = Running([sys.executable, "-c", code], folder=tmp_path, name="child")
    deadline = time.monotonic() + 20
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    ended = running.wait(0.1)

    assert ended.timed_out
    assert ended.status is None
    grandchild = int((tmp_path / "pid").read_text())
    while Path(f"/proc/{grandchild}/stat").exists():
        if Path(f"/proc/{grandchild}/stat").read_text().split()[2] == "Z":
            break  # ended; whoever adopted it has not looked yet
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_only_the_tail_is_kept(tmp_path: Path) -> None:
    """Megabytes of output do not become megabytes of memory."""
    ended = run(tmp_path, "print('x' * 5_000_000 + 'last words')")

    assert len(ended.stdout) <= 16_384
    assert ended.stdout.endswith("last words\n")


def test_what_cannot_be_started(tmp_path: Path) -> None:
    """A missing program is one clear error."""
    with pytest.raises(TargetUnusable):
        Running([str(tmp_path / "missing")], folder=tmp_path, name="child")


def test_ending_twice_touches_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first end its number may belong to another process."""
    running = Running([sys.executable, "-c", ""], folder=tmp_path, name="child")
    running.wait(20)
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("killed a number that may be somebody else's"))

    running.end()


def test_no_child_leaves_a_core_file(tmp_path: Path) -> None:
    """An import that crashes would leave gigabytes behind."""
    told = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"
    completed = Running([sys.executable, "-c", told], folder=tmp_path, name="x").wait(10)

    assert completed.stdout.strip() == "(0, 0)"
