"""Real read-only and real full file systems, mounted for one child alone; needs root, as containers of CI have it."""

from __future__ import annotations

import ctypes
import os
import subprocess
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from attn_doctor.errors import AttnDoctorError
from tests.fix.crashing import Scene

_NEW_MOUNTS = 0x20000


def _mount(*words: object) -> None:
    subprocess.run(["mount", *map(str, words)], check=True, capture_output=True, timeout=30)


def _alone() -> None:
    """Mounts made from here on are seen by this process and its children only."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    _mount("--make-rprivate", "/")


def in_own_mounts(work: Callable[[], None]) -> None:
    """Does it in a child with mounts of its own; fails with the child's words."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            _alone()
            work()
        except BaseException:
            said = traceback.format_exc()
        finally:
            os.write(writing, said.encode()[-60_000:])
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    assert not said, said


def _can_mount() -> bool:
    child = os.fork()
    if child == 0:
        try:
            _alone()
        except (OSError, subprocess.SubprocessError):
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


pytestmark = pytest.mark.skipif(not _can_mount(), reason="nothing can be mounted here")


def read_only(folder: Path) -> None:
    """Nothing can be written below it any more."""
    _mount("--bind", folder, folder)
    _mount("-o", "remount,ro,bind", folder)


def message(work: Callable[[], object]) -> str:
    """What it says when it gives up, as a person reads it."""
    with pytest.raises(AttnDoctorError) as refused:
        work()
    return f"{refused.value.what} {refused.value.about} {refused.value.hint}"


@pytest.mark.process
def test_everything_is_read_only(tmp_path: Path) -> None:
    """No journal can be written: nothing is changed, and it says so."""
    scene = Scene.make(tmp_path / "scene")
    before = scene.state()

    def work() -> None:
        plan = scene.plan()
        read_only(scene.folder)
        assert "Read-only file system" in message(lambda: scene.run(plan))

    in_own_mounts(work)
    assert scene.state() == before


@pytest.mark.process
@pytest.mark.parametrize("where", ["environment/lib", "environment/bin", "project"])
def test_a_part_of_it_is_read_only(tmp_path: Path, where: str) -> None:
    """Halfway through a run: what was changed elsewhere is put back."""
    scene = Scene.make(tmp_path / "scene")
    before = scene.state()

    def work() -> None:
        plan = scene.plan()
        read_only(scene.folder / where)
        assert "Read-only file system" in message(lambda: scene.run(plan))
        assert scene.state() == before

    in_own_mounts(work)


@pytest.mark.process
@pytest.mark.parametrize("free", [0, 8, 20, 32, 44, 60, 76, 92, 108])
def test_a_disk_that_fills_up(tmp_path: Path, free: int) -> None:
    """So many KiB of room: one clear message; once there is room again, every byte is as it was."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def work() -> None:
        _mount("-t", "tmpfs", "-o", "size=512k", "tmpfs", folder)
        scene = Scene.make(folder / "scene")
        plan = scene.plan()
        before = scene.state()
        room = os.statvfs(folder)
        (folder / "ballast").write_bytes(b"x" * (room.f_bavail * room.f_bsize - free * 1024))
        try:
            scene.run(plan)
        except AttnDoctorError as error:
            assert "No space left" in f"{error.what} {error.about}", error  # noqa: PT017
        else:
            assert free > 90  # there was room for all of it
            return
        (folder / "ballast").unlink()
        scene.undo()
        assert scene.state() == before

    in_own_mounts(work)
