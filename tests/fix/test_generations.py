"""What a kill, an editor or another package must not break: each case was met with real packages."""

from __future__ import annotations

import errno
import functools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.fix.journal import journal, prepare, run_plan, undo
from attn_doctor.fix.journal.journal import JournalUnusable, StillAlive, begin, held
from attn_doctor.fix.journal.prune import prune
from attn_doctor.fix.journal.resume import drop_prepared, resumed_plan, unfinished
from attn_doctor.fix.journal.swap import ChangedSince
from attn_doctor.machine import survivors
from attn_doctor.model.findings import Diagnosis, Finding, Severity
from attn_doctor.model.plans import Install
from tests.conftest import CHECKOUT
from tests.fix import crashing
from tests.fix.crashing import Scene, in_child

pytestmark = pytest.mark.long


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.make(tmp_path / "scene")


def whole_state(scene: Scene) -> dict[str, tuple[object, ...]]:
    """With times and numbers of links, as far as files go."""
    found = {}
    for name, own in scene.state().items():
        seen = (scene.folder / name).lstat()
        found[name] = (*own, seen.st_mtime_ns, seen.st_nlink, seen.st_uid) if own[1] else own
    return found


def last(scene: Scene) -> journal.Run:
    return journal.runs(scene.prefix)[-1]


def upgrade_by_hand(scene: Scene) -> None:
    """What pip does: what the run left goes, another release comes."""
    shutil.rmtree(scene.site / "kernels")
    shutil.rmtree(scene.site / "kernels-2.0.dist-info", ignore_errors=True)
    (scene.site / "kernels").mkdir()
    (scene.site / "kernels/__init__.py").write_bytes(b"version = 3\n")
    (scene.site / "kernels/only_in_3.py").write_bytes(b"x = 3\n")
    (scene.site / "kernels-3.0.dist-info").mkdir()
    (scene.site / "kernels-3.0.dist-info/METADATA").write_bytes(crashing._metadata("3.0"))
    crashing._record(
        scene.site, "3.0", ("kernels/__init__.py", "kernels/only_in_3.py", "kernels-3.0.dist-info/METADATA")
    )


class TestLinks:
    """uv links what it installs into its cache: one inode under the old name, the new one, and there."""

    @pytest.fixture
    def linked(self, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
        cache = tmp_path / "cache"
        shutil.copytree(scene.site / "kernels", cache)
        for file in cache.iterdir():
            (scene.site / "kernels" / file.name).unlink()
            os.link(file, scene.site / "kernels" / file.name)
        real = crashing.FakeInstaller.install_beside

        def links(
            self: Any, change: Install, wheels: Mapping[str, str], into: Path, fetched: Path, *, linked: bool
        ) -> Mapping[str, str]:
            done = real(self, change, wheels, into, fetched, linked=linked)
            same = into / "lib/python3/site-packages/kernels/data.bin"
            same.unlink()
            os.link(cache / "data.bin", same)  # the same content in both releases
            return done

        monkeypatch.setattr(crashing.FakeInstaller, "install_beside", links)
        return scene

    def test_there_and_back(self, linked: Scene) -> None:
        """Nothing of either release is where the other one is, and the links are those of before."""
        before = whole_state(linked)
        linked.run(linked.plan())
        assert (linked.site / "kernels/data.bin").stat().st_ino
        assert not (linked.site / "kernels/gone.py").exists()
        linked.undo()

        assert whole_state(linked) == before

    @pytest.mark.process
    def test_killed_resumed_and_undone(self, linked: Scene) -> None:
        """Wherever it was cut off, after --resume undo brings back what was, and no file of the new release stays."""
        before = whole_state(linked)
        for number in range(20, 100, 7):
            in_child(lambda: linked.run(linked.plan()), kill_at=number)
            linked.resume()
            linked.undo()
            assert whole_state(linked) == before, number


def test_across_file_systems(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename that is refused (a bind mount, a layer of an overlay) becomes a whole copy, with its times and modes."""
    real = Path.rename

    def across(self: Path, target: Path) -> Path:
        if (journal.FOLDER in self.parts) != (journal.FOLDER in Path(target).parts):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(self))
        return real(self, target)

    before = whole_state(scene)
    monkeypatch.setattr(Path, "rename", across)
    scene.run(scene.plan())
    assert (scene.site / "kernels/sub/fresh.py").exists()
    assert not (scene.site / "kernels/gone.py").exists()
    scene.undo()

    assert whole_state(scene) == before


@pytest.mark.process
def test_killed_across_file_systems(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also between the copy and the removal."""
    real = Path.rename

    def across(self: Path, target: Path) -> Path:
        if (journal.FOLDER in self.parts) != (journal.FOLDER in Path(target).parts):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(self))
        return real(self, target)

    monkeypatch.setattr(Path, "rename", across)
    before = whole_state(scene)
    for number in range(40, 180, 9):
        killed, _ = in_child(lambda: scene.run(scene.plan()), kill_at=number)
        if number % 2 and killed:
            scene.resume()
        scene.undo()
        assert whole_state(scene) == before, number


@pytest.mark.process
def test_what_was_installed_after_a_kill_stays(scene: Scene) -> None:
    """undo of a run that was cut off takes out nothing that is not the run's."""
    before = scene.state()
    killed, _ = in_child(lambda: scene.run(scene.plan()), kill_at=60)
    assert killed
    assert last(scene).state == "interrupted"
    newcomer = scene.site / "newcomer/__init__.py"
    newcomer.parent.mkdir()
    newcomer.write_text("here = 1\n")
    scene.undo()

    assert newcomer.read_text() == "here = 1\n"
    shutil.rmtree(newcomer.parent)
    assert scene.state() == before


def test_an_upgrade_by_hand_is_named(scene: Scene) -> None:
    """Neither undone nor mixed without being asked; told which release it is now."""
    scene.run(scene.plan())
    upgrade_by_hand(scene)
    after = scene.state()
    with pytest.raises(ChangedSince, match=r"the run left 2\.0, and it is 3\.0 now") as refused:
        scene.undo()

    assert scene.state() == after
    assert "--force" in refused.value.hint


def test_an_upgrade_by_hand_goes_whole(scene: Scene) -> None:
    """--force: the old release as a whole, nothing of the one between; that one is kept aside."""
    before = whole_state(scene)
    scene.run(scene.plan())
    upgrade_by_hand(scene)
    scene.undo(force=True)

    assert whole_state(scene) == before
    found = [file.read_bytes() for file in (last(scene).folder / "found").rglob("only_in_3.py")]
    assert found == [b"x = 3\n"]


def test_an_upgrade_by_hand_is_left(scene: Scene) -> None:
    """--leave: that release stays whole, all else goes back; also where the undo was cut off and typed again."""
    before = scene.state()
    scene.run(scene.plan())
    upgrade_by_hand(scene)
    upgraded = {name: own for name, own in scene.state().items() if "kernels" in name}
    with pytest.raises(ChangedSince) as refused:
        scene.undo()
    assert "--leave kernels" in refused.value.hint
    with pytest.raises(BadInput, match="did not change torch"):
        undo.undo(last(scene), leave=("torch",))
    assert {name: own for name, own in scene.state().items() if "kernels" in name} == upgraded

    last(scene).note("undoing", leave=["kernels"])  # cut off there
    done = undo.undo(last(scene))
    now = scene.state()
    assert done.left == ("kernels, as it is",)
    assert {name: own for name, own in now.items() if "kernels" in name} == upgraded
    assert {name: own for name, own in now.items() if "kernels" not in name} == {
        name: own for name, own in before.items() if "kernels" not in name
    }


@pytest.mark.parametrize("swapping", [False, True])
def test_what_was_wrong_before_does_not_appear(scene: Scene, swapping: bool) -> None:
    """A run that is taken up again, wherever it was, knows the findings before it, those outside of --only too."""
    other = Finding(id="other", severity=Severity.ERROR, title="other")
    ill = Diagnosis(findings=(*crashing._ILL.findings, other))
    with held((scene.prefix, scene.project)):
        plan = scene.plan()
        run = begin(scene.prefix, crashing.plan_v1.dumps(plan), "", notes=run_plan.noted(ill))
        hands = scene.hands()
        if swapping:
            prepare.prepare(plan, run, stage=hands.stage)
            run.note("swapping")
        outcome = run_plan.go_on(
            plan, run, hands=run_plan.Hands(
                stage=hands.stage, prove=hands.prove, examine=lambda: Diagnosis(findings=(other,))
            ),
        )  # fmt: skip

    assert outcome.cured


def test_proven_before_anything_changes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fix that is none is known to be none while every file is where it was."""
    before = whole_state(scene)
    monkeypatch.setattr(run_plan, "swap_in", lambda *_: pytest.fail("exchanged"))
    hands = scene.hands(cures=False, proves=True)
    with held((scene.prefix, scene.project)):
        plan = scene.plan()
        done = run_plan.carry_out(
            plan, crashing.plan_v1.dumps(plan), home=scene.prefix, before=crashing._ILL, hands=hands
        )

    assert not done.cured
    assert whole_state(scene) == before
    assert [one.name for one in last(scene).folder.iterdir() if one.name in ("stage", "edits", "shadow")] == []


@pytest.mark.process
def test_cut_off_before_its_first_change(scene: Scene) -> None:
    """It is in nobody's way: the next fix starts, and what was prepared is removed."""
    before = scene.state()
    killed, _ = in_child(lambda: scene.run(scene.plan()), kill_at=20)
    assert killed
    assert (last(scene).state, scene.state()) == ("prepared", before)
    run = unfinished(journal.runs(scene.prefix))
    assert run is not None
    assert resumed_plan(run) == scene.plan()
    drop_prepared(scene.prefix)

    assert last(scene).state == "undone"
    assert not (last(scene).folder / "stage").exists()


@pytest.mark.process
def test_nothing_of_a_killed_run_lives_on(tmp_path: Path) -> None:
    """pip starts a second process to work for another interpreter: SIGKILL of attn-doctor ends both."""
    source = (
        "import os, signal, subprocess, sys, time\nfrom pathlib import Path\n"
        "from attn_doctor.machine.process import Running, ending_with_us\n"
        "with ending_with_us('marked'):\n"
        "    sleeps = 'import time; time.sleep(99)'\n"
        "    inner = f'import subprocess, sys; subprocess.run([sys.executable, \"-c\", {sleeps!r}])'\n"
        f"    Running([sys.executable, '-c', inner], folder=Path({str(tmp_path)!r}), name='outer')\n"
        "    print('started', flush=True)\n    time.sleep(99)\n"
    )
    doctor = subprocess.Popen([sys.executable, "-c", source], cwd=CHECKOUT, stdout=subprocess.PIPE)
    assert doctor.stdout is not None
    doctor.stdout.readline()
    until = time.monotonic() + 20
    while len(survivors.alive(("marked",), wait=0.0)) < 3 and time.monotonic() < until:
        time.sleep(0.02)
    assert len(survivors.alive(("marked",), wait=0.0)) >= 3
    doctor.kill()
    doctor.wait()

    assert survivors.alive(("marked",), wait=10.0) == ()


@pytest.mark.process
@pytest.mark.parametrize("guard", ["outer", "inner"])
def test_nothing_outlives_a_guard_that_is_killed(tmp_path: Path, guard: str) -> None:
    """SIGKILL of one that watches an installer ends all that the installer started, in another session too."""
    source = (
        "import os, signal, sys, time\nfrom pathlib import Path\nfrom attn_doctor.machine import survivors\n"
        "from attn_doctor.machine.process import Running, ending_with_us\n"
        "with ending_with_us('marked'):\n"
        "    sleeps = 'import os, time; os.setsid(); time.sleep(99)'\n"
        "    inner = f'import subprocess, sys; subprocess.run([sys.executable, \"-c\", {sleeps!r}])'\n"
        f"    running = Running([sys.executable, '-c', inner], folder=Path({str(tmp_path)!r}), name='outer')\n"
        "    while len(survivors.alive(('marked',), wait=0.0)) < 4:\n        time.sleep(0.02)\n"
        "    time.sleep(0.2)\n"
        "    pid = running._process.pid\n"
        f"    if {guard == 'inner'}:\n        pid = int(Path(f'/proc/{{pid}}/task/{{pid}}/children').read_text())\n"
        "    os.kill(pid, signal.SIGKILL)\n"
        "    print(survivors.alive(('marked',), wait=10.0))\n"
        "    running.wait(20)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", source], cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=False
    )

    assert (told.stdout, told.stderr) == ("()\n", "")


@pytest.mark.process
@pytest.mark.parametrize("way", ["undo", "resume"])
def test_refused_while_something_of_the_run_lives(scene: Scene, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """It may still write: its id is told, and nothing is changed."""
    monkeypatch.setattr(journal.survivors, "alive", functools.partial(survivors.alive, wait=0.0))
    with held((scene.prefix,)):
        begin(scene.prefix, crashing.plan_v1.dumps(scene.plan()), "", mark="of-this-run")
    living = subprocess.Popen(["sleep", "60"], env={**os.environ, survivors.MARK: "of-this-run"})
    try:
        with pytest.raises(StillAlive, match=f"process {living.pid}"):
            (scene.undo if way == "undo" else scene.resume)()
    finally:
        living.kill()
        living.wait()


def test_a_journal_of_another_form(scene: Scene) -> None:
    """One message that says whose it is, and where the copies are."""
    with held((scene.prefix,)):
        run = begin(scene.prefix, "{}", "")
        run.note("changing", step=0, kind="install-packages")
    with pytest.raises(JournalUnusable, match="an earlier attn-doctor") as refused:
        undo.undo(run)

    assert "kept" in refused.value.hint


def test_pruned(scene: Scene) -> None:
    """What old runs keep goes, the last ones can still be undone."""
    first = scene.run(scene.plan()).run
    assert first.size() > 10_000
    with held((scene.prefix,)):
        assert prune(journal.runs(scene.prefix), keep=1) == ()
        assert [run.id for run, _ in prune(journal.runs(scene.prefix), keep=0)] == [first.id]

    assert first.state == "pruned"
    assert not (first.folder / "kept").exists()
    after = scene.state()
    scene.undo()
    assert scene.state() == after


@pytest.mark.skipif(os.geteuid() != 0, reason="only root works in another user's environment")
def test_root_leaves_nothing_of_its_own(scene: Scene) -> None:
    """In another user's environment everything stays that user's, the journal too."""
    somebody = 65534
    for path in (scene.folder, *scene.folder.rglob("*")):
        os.chown(path, somebody, somebody)
    before = whole_state(scene)
    scene.run(scene.plan())

    assert {path.lstat().st_uid for path in scene.folder.rglob("*")} == {somebody}
    scene.undo()
    assert whole_state(scene) == before
    assert {path.lstat().st_uid for path in scene.folder.rglob("*")} == {somebody}
