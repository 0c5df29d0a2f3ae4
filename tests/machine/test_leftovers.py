"""What a killed doctor leaves in the temporary folder is taken away by the next run, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from attn_doctor.machine import leftovers
from attn_doctor.machine.scratch import scratch

#: A doctor that is in the middle of its work.
WORKING = """
import sys, time
from attn_doctor.machine.scratch import scratch
with scratch() as folder:
    (folder / "home").mkdir()
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder of the test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def run() -> None:
    """One more doctor comes and goes."""
    with scratch():
        pass


@pytest.mark.process
def test_a_killed_ones_folder_goes_and_a_living_ones_stays(temporary: Path) -> None:
    """SIGKILL leaves no time to tidy up."""
    working = [subprocess.Popen([sys.executable, "-c", WORKING], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        folders = [Path(one.stdout.readline().strip()) for one in working if one.stdout]
        run()
        assert [one.is_dir() for one in folders] == [True, True]
        working[0].send_signal(signal.SIGKILL)
        working[0].wait()
        run()

        assert [one.exists() for one in folders] == [False, True]
    finally:
        for one in working:
            one.kill()
            one.wait()
    run()
    assert list(temporary.iterdir()) == []


def abandoned(temporary: Path, name: str = "attn-doctor-abcdefgh") -> Path:
    """A folder as a killed doctor leaves it."""
    folder = temporary / name
    folder.mkdir(mode=0o700)
    with leftovers.held(folder):
        pass
    return folder


def test_one_that_is_abandoned_goes(temporary: Path) -> None:
    """The fixture of the tests below is right."""
    abandoned(temporary)
    run()

    assert list(temporary.iterdir()) == []


def test_what_is_not_surely_abandoned_stays(temporary: Path) -> None:
    """Other names, open modes, links, no mark, the mark of another start or node."""
    kept = [abandoned(temporary, name) for name in ("attn-doctor-1000", "attn-doctor-abcdefghi", "other-abcdefgh")]
    kept.append(abandoned(temporary, "attn-doctor-openopen"))
    kept[-1].chmod(0o755)
    kept.append(abandoned(temporary, "attn-doctor-nomark12"))
    (kept[-1] / ".held").unlink()
    kept.append(abandoned(temporary, "attn-doctor-elsewher"))
    (kept[-1] / ".held").write_text("another start")
    elsewhere = temporary / "real"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    (temporary / "attn-doctor-linklink").symlink_to(elsewhere)
    mark = abandoned(temporary, "attn-doctor-linkmark")
    (mark / ".held").rename(temporary / "mark")
    (mark / ".held").symlink_to(temporary / "mark")
    run()

    assert all(one.is_dir() for one in (*kept, mark))
    assert (elsewhere / "precious").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give folders to others")
def test_another_users_stays(temporary: Path) -> None:
    """Root, too, takes away its own alone."""
    folder = abandoned(temporary)
    os.chown(folder, 4711, -1)
    run()

    assert folder.is_dir()
