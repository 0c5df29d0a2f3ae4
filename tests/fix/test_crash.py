"""Whatever ends a run, every byte is as it was or as planned afterwards, never between."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attn_doctor.fix.journal import journal, prepare, swap
from attn_doctor.fix.journal.journal import JournalUnusable
from attn_doctor.fix.journal.prepare import Stale
from attn_doctor.fix.journal.run_plan import NotCured
from attn_doctor.fix.journal.swap import ChangedSince
from attn_doctor.fix.journal.undo import UndoFailed
from attn_doctor.machine import atomic
from attn_doctor.machine.lock import Held
from tests.fix.crashing import Scene, in_child

#: Every boundary of a run is interrupted, in every way: half of the time that all other unit tests take together.
pytestmark = pytest.mark.long


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.make(tmp_path / "scene")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, tuple[int, str]]]:
    """How many boundaries a run has, and what it leaves."""
    scene = Scene.make(tmp_path_factory.mktemp("whole") / "scene")
    killed, count = in_child(lambda: scene.run(scene.plan()), kill_at=None)
    assert not killed
    return count, scene.state()


def test_a_whole_run_and_its_undo(scene: Scene, planned: tuple[int, dict[str, tuple[int, str]]]) -> None:
    """After the run every file has its planned content; after undo, every file has its original content."""
    before = scene.state()
    scene.run(scene.plan())

    assert scene.state() == planned[1] != before
    scene.undo()
    assert scene.state() == before


@pytest.mark.process
@pytest.mark.parametrize("way", ["undo", "resume"])
def test_killed_at_every_boundary(tmp_path: Path, planned: tuple[int, dict[str, tuple[int, str]]], way: str) -> None:
    """SIGKILL anywhere: `undo` brings back what was, `fix --resume` what was planned."""
    count, after = planned
    assert count > 80
    for number in range(count):
        scene = Scene.make(tmp_path / "scene")
        before = scene.state()
        plan = scene.plan()  # here, and once for all of them
        killed, _ = in_child(lambda scene=scene, plan=plan: scene.run(plan), kill_at=number)
        assert killed
        if way == "undo":
            scene.undo()
            assert scene.state() == before, number
        else:
            scene.resume()
            # Before its first entry is on disk nothing was begun: there is nothing to resume.
            assert scene.state() in ((before, after) if number < 8 else (after,)), number


@pytest.mark.process
@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_killed_again_and_again(tmp_path: Path, data: st.DataObject) -> None:
    """Undo itself may be killed anywhere, as often as it likes: the last one that comes through restores every byte."""
    scene = Scene.make(tmp_path / "scene")
    before = scene.state()
    plan = scene.plan()
    in_child(lambda: scene.run(plan), kill_at=data.draw(st.integers(0, 80)))
    for number in data.draw(st.lists(st.integers(0, 40), max_size=3)):
        in_child(scene.undo, kill_at=number)
    scene.undo()

    assert scene.state() == before


@pytest.mark.parametrize("ending", [KeyboardInterrupt, SystemExit(143), RuntimeError])
def test_interrupted_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: BaseException | type[BaseException]
) -> None:
    """^C, SIGTERM and bugs of ours put everything back on their way out."""
    for number in range(4, 28, 3):
        scene = Scene.make(tmp_path / "scene")
        before = scene.state()
        passed = 0

        def stop(name: str, at: int = number) -> None:
            nonlocal passed
            passed += 1
            if passed == at:
                raise ending

        for module in (journal, prepare, swap):
            monkeypatch.setattr(module, "boundary", stop)
        plan = scene.plan()
        with pytest.raises((KeyboardInterrupt, SystemExit, RuntimeError)):
            scene.run(plan)
        monkeypatch.undo()

        scene.undo()
        assert scene.state() == before, number


def test_a_cure_that_is_none_is_undone(scene: Scene) -> None:
    """The finding is still there afterwards: everything is put back, and it says so."""
    before = scene.state()
    outcome = scene.run(scene.plan(), cures=False)

    assert (outcome.cured, scene.state()) == (False, before)
    assert "still there" in outcome.troubles[0]


def test_an_installer_that_fails_halfway(scene: Scene) -> None:
    """What it had taken away is back, and its last words are told."""
    before = scene.state()
    with pytest.raises(NotCured, match="could not be had") as failed:
        scene.run(scene.plan(), fails=True)

    assert "no space left" in failed.value.about
    assert failed.value.exit_status == 4
    assert scene.state() == before


def test_a_file_edited_since_the_plan(scene: Scene) -> None:
    """Somebody was quicker: the plan is stale, and theirs stays."""
    plan = scene.plan()
    (scene.project / "b.json").write_text("{}")
    before = scene.state()
    with pytest.raises(Stale, match="changed since"):
        scene.run(plan)

    assert scene.state() == before


def test_a_file_edited_since_the_run(scene: Scene) -> None:
    """undo changes nothing if a file was edited after the run, unless --force is given."""
    scene.run(scene.plan())
    (scene.project / "b.json").write_text("{}")
    before = scene.state()
    with pytest.raises(ChangedSince, match="somebody else"):
        scene.undo()

    assert scene.state() == before


def test_a_package_changed_since_the_run(scene: Scene) -> None:
    """The same for an installed file."""
    scene.run(scene.plan())
    (scene.site / "kernels/sub/fresh.py").write_text("mine = 1\n")
    before = scene.state()
    with pytest.raises(ChangedSince, match="somebody else"):
        scene.undo()

    assert scene.state() == before


def test_others_installed_since_stay(scene: Scene) -> None:
    """undo of a finished run takes out its own files only."""
    before = scene.state()
    scene.run(scene.plan())
    (scene.site / "newcomer.py").write_text("here = 1\n")
    scene.undo()
    (scene.site / "newcomer.py").unlink()

    assert scene.state() == before


def test_another_package_than_the_plan_saw(scene: Scene) -> None:
    """A plan for kernels 1.0 is not carried out on another release."""
    plan = scene.plan()
    info = scene.site / "kernels-1.0.dist-info/METADATA"
    info.write_text(info.read_text().replace("Version: 1.0", "Version: 1.1"))
    before = scene.state()
    with pytest.raises(NotCured, match="made for"):
        scene.run(plan)

    assert scene.state() == before


@pytest.mark.process
def test_two_at_once(scene: Scene) -> None:
    """The second run gets an error that names the first, and changes nothing."""
    before = scene.state()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with journal.held((scene.prefix,)):
            os.write(writing, b"x")
            signal.pause()
    os.read(reading, 1)
    try:
        with pytest.raises(Held) as refused:
            scene.run(scene.plan())
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    assert f"process {child}" in refused.value.about
    assert refused.value.exit_status == 3
    assert scene.state() == before
    scene.run(scene.plan())  # the dead do not hold locks


@pytest.fixture
def small_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """A disk that is full after so many bytes."""
    real = os.fsync
    left = [0]

    def full_after(count: int) -> None:
        left[0] = count
        monkeypatch.setattr(os, "fsync", counted)

    def counted(handle: int) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    yield full_after
    monkeypatch.undo()


@pytest.mark.parametrize("writes", range(0, 39, 3))
def test_a_full_disk(scene: Scene, small_disk: Callable[[int], None], writes: int) -> None:
    """One clear message; once there is room again, everything is as it was."""
    before = scene.state()
    plan = scene.plan()
    small_disk(writes)
    with pytest.raises((JournalUnusable, NotCured, UndoFailed), match="No space left"):
        scene.run(plan)
    small_disk(10**9)
    scene.undo()

    assert scene.state() == before


def test_no_room_for_a_journal(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no journal can be written nothing is changed."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    before = scene.state()
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(JournalUnusable, match="Read-only"):
        scene.run(scene.plan())
    monkeypatch.undo()

    assert scene.state() == before


def test_permission_lost_midway(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package's source could be replaced and its RECORD could not: everything is put back, in one message."""
    real = Path.rename
    refused = []

    def refuse(self: Path, target: Path) -> Path:
        if not refused and target.name == "RECORD" and target.parent.name.startswith("fused"):
            refused.append(target)
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
        return real(self, target)

    before = scene.state()
    plan = scene.plan()
    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(NotCured, match="Permission denied") as failed:
        scene.run(plan)
    monkeypatch.undo()

    assert failed.value.about.endswith("RECORD")
    assert scene.state() == before


@pytest.mark.parametrize("name", ["fused/ops.py", "fused-1.0.dist-info/RECORD"])
def test_a_package_patched_since_the_plan(scene: Scene, name: str) -> None:
    """The plan is stale where its source or its RECORD is another one by now."""
    plan = scene.plan()
    file = scene.site / name
    file.write_bytes(file.read_bytes() + b"\n")
    before = scene.state()
    with pytest.raises(Stale, match="changed since"):
        scene.run(plan)

    assert scene.state() == before


def test_hard_links_are_left_alone(scene: Scene, tmp_path: Path) -> None:
    """uv links installed files into its cache and other environments: those keep their bytes."""
    sibling = tmp_path / "sibling"
    sibling.mkdir()
    for number, file in enumerate(
        [
            scene.site / "kernels/data.bin",
            scene.project / "a.yaml",
            scene.site / "fused/ops.py",
            scene.site / "fused-1.0.dist-info/RECORD",
        ]
    ):
        os.link(file, sibling / str(number))
    bytes_before = [file.read_bytes() for file in sorted(sibling.iterdir())]
    scene.run(scene.plan())
    scene.undo()

    assert [file.read_bytes() for file in sorted(sibling.iterdir())] == bytes_before


def test_a_torn_line_was_never_written(scene: Scene) -> None:
    """The last entry is cut short: the change it announces was not made, and later entries still count."""
    outcome = scene.run(scene.plan())
    file = outcome.run.folder / "journal.jsonl"
    text = file.read_text()
    file.write_text(text.rstrip("\n")[:-5])

    assert outcome.run.state == "interrupted"
    outcome.run.note("verified")
    assert outcome.run.state == "applied"


def test_nothing_is_left_beside_the_files(scene: Scene) -> None:
    """Parts and temporary names are gone after a run."""
    names = {path.name for path in scene.folder.rglob("*") if journal.FOLDER not in path.parts}
    scene.run(scene.plan())
    fresh = {path.name for path in scene.folder.rglob("*") if journal.FOLDER not in path.parts} - names

    assert fresh == {"fresh.py", "sub", "kernels-2.0.dist-info", "kernels-tool", "attn-doctor.json"}
    assert atomic.sha256_of(scene.folder / "nothing") is None


@pytest.mark.process
@pytest.mark.parametrize("way", ["undo", "resume"])
def test_what_a_person_wrote_after_a_crash_is_kept(
    tmp_path: Path, planned: tuple[int, dict[str, tuple[int, str]]], way: str
) -> None:
    """Wherever the run was killed, undo never overwrites later edits of a configuration."""
    refused = 0
    for number in range(0, planned[0], 3):
        scene = Scene.make(tmp_path / "scene")
        plan = scene.plan()
        in_child(lambda scene=scene, plan=plan: scene.run(plan), kill_at=number)
        mine = b"stage: sft\nflash_attn: sdpa  # mine\n"
        (scene.project / "a.yaml").write_bytes(mine)
        try:
            (scene.undo if way == "undo" else scene.resume)()
        except ChangedSince:
            refused += 1
        except (Stale, NotCured):
            pass  # it was not begun when they wrote it

        assert (scene.project / "a.yaml").read_bytes() == mine, number
    assert refused


@pytest.mark.process
def test_what_a_person_wrote_during_an_undo_is_kept(
    tmp_path: Path, planned: tuple[int, dict[str, tuple[int, str]]]
) -> None:
    """The same where undo itself was cut off: it does not go on over their words."""
    for number in range(3, 60, 8):
        scene = Scene.make(tmp_path / "scene")
        scene.run(scene.plan())
        killed, _ = in_child(scene.undo, kill_at=number)
        assert killed
        mine = b"stage: sft\nflash_attn: sdpa  # mine\n"
        (scene.project / "a.yaml").write_bytes(mine)
        with pytest.raises(ChangedSince):
            scene.undo()

        assert (scene.project / "a.yaml").read_bytes() == mine, number


def test_bytecode_is_nobodys_change(scene: Scene) -> None:
    """A training run on the new release compiles it; undo still goes, and brings the old bytecode back."""
    compiled = scene.site / "kernels/__pycache__/__init__.cpython-311.pyc"
    compiled.parent.mkdir()
    compiled.write_bytes(b"old")
    before = scene.state()
    scene.run(scene.plan())
    compiled.parent.mkdir()
    compiled.write_bytes(b"compiled by a training run")
    scene.undo()

    assert scene.state() == before
