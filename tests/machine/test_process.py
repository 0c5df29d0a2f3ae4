"""Processes: bounded, ended whole, their last words kept."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attn_doctor.errors import TargetUnusable
from attn_doctor.machine.process import Running

pytestmark = pytest.mark.process


def run(tmp_path: Path, code: str, timeout: float = 20.0):
    return Running([sys.executable, "-c", code], folder=tmp_path, name="child").wait(timeout)


def test_ended_by_itself(tmp_path: Path) -> None:
    """Status and output."""
    ended = run(tmp_path, "import sys; print('out'); sys.stderr.write('err'); sys.exit(3)")

    assert (ended.status, ended.signal, ended.timed_out) == (3, None, False)
    assert (ended.stdout, ended.stderr) == ("out\n", "err")
    assert ended.ended() == "ended with status 3"


def test_ended_by_a_signal(tmp_path: Path) -> None:
    """A crash is distinguished from an exit."""
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
    # Set from here once it runs, so that it waits for a moment on a busy machine.
    told = "import resource, time; time.sleep(0.5); print(resource.getrlimit(resource.RLIMIT_CORE))"
    completed = Running([sys.executable, "-c", told], folder=tmp_path, name="x").wait(10)

    assert completed.stdout.strip() == "(0, 0)"


#: Leaves a process in a session of its own, whose parent is gone: what daemons do.
DAEMON = """
import os, sys, time
def daemon(file, again):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            if again:
                daemon(file + "-child", False)
            open(file + ".part", "w").write(str(os.getpid()))
            os.rename(file + ".part", file)
            time.sleep(600)
        os._exit(0)
daemon(sys.argv[1], True)
while not os.path.exists(sys.argv[1]) or not os.path.exists(sys.argv[1] + "-child"):
    time.sleep(0.01)
"""
#: Runs it as the patient's code, and tells which processes live afterwards.
OUTER = """
import os, subprocess, sys, time
from pathlib import Path
from attn_doctor.machine.process import Running
folder, how = Path(sys.argv[1]), sys.argv[2]
if how == "children of its own":
    mine = subprocess.Popen(["sleep", "600"])
Running([sys.executable, "-c", sys.argv[3], str(folder / "pid")], folder=folder, name="patient",
        of_patient=how != "not the patient's").wait(20)
def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
print(*(lives((folder / name).read_text()) for name in ("pid", "pid-child")))
if how == "children of its own":
    print(mine.poll())
    mine.kill()
for name in ("pid", "pid-child"):
    try:
        os.kill(int((folder / name).read_text()), 9)
    except ProcessLookupError:
        pass
"""


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("the patient's", ["False", "False"]),
        ("not the patient's", ["True", "True"]),
        ("children of its own", ["False", "False", "None"]),
    ],
)
def test_daemons_of_the_patient_end_with_it(tmp_path: Path, how: str, said: list[str]) -> None:
    """Whatever sessions they made; never what is not surely of the patient's making."""
    words = [sys.executable, "-c", OUTER, str(tmp_path), how, DAEMON]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)

    assert done.stderr == ""
    assert done.stdout.split() == said


#: As `OUTER`, and is killed while the patient's code runs.
KILLED = """
import os, sys
from pathlib import Path
from attn_doctor.machine.process import Running
folder = Path(sys.argv[1])
running = Running([sys.executable, "-c", sys.argv[2] + "time.sleep(600)", str(folder / "pid")], folder=folder,
                  name="patient", of_patient=True)
while not (folder / "pid-child").exists():
    running._ends_within(0.01)
os.kill(os.getpid(), 9)
"""


def test_daemons_of_the_patient_end_with_a_killed_doctor(tmp_path: Path) -> None:
    """SIGKILL leaves nobody to end them: the guard does."""
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), DAEMON], timeout=60)
    pids = [int((tmp_path / name).read_text()) for name in ("pid", "pid-child")]
    until = time.monotonic() + 20
    while any(map(_lives, pids)) and time.monotonic() < until:
        time.sleep(0.01)

    assert [pid for pid in pids if _lives(pid)] == []


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_crash_of_the_patient_is_its_own(tmp_path: Path) -> None:
    """Statuses, signals and output pass the guard; it costs no descriptor."""
    before = len(os.listdir("/proc/self/fd"))
    codes = ("raise SystemExit(7)", "import os; os.kill(os.getpid(), 11)", "print('out')")
    ended = [
        Running([sys.executable, "-c", code], folder=tmp_path, name=str(n), of_patient=True).wait(60)
        for n, code in enumerate(codes)
    ]

    assert [(one.status, one.signal, one.stdout) for one in ended] == [
        (7, None, ""),
        (None, 11, ""),
        (0, None, "out\n"),
    ]
    assert len(os.listdir("/proc/self/fd")) == before
