"""Nothing outside the target, the named configurations and the project is ever written, whoever asks for it."""

from __future__ import annotations

import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.allowed import check_file, check_plan, project_of
from attn_doctor.fix.edits import config
from attn_doctor.fix.edits.splices import digest
from attn_doctor.fix.journal.journal import JournalUnusable, begin, held
from attn_doctor.fix.journal.prepare import Stale
from attn_doctor.fix.packages import installed, installers, releases, resolve
from attn_doctor.fix.packages.stage import stage
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.install_request import InstallRequest
from attn_doctor.model.plans import FileEdit, Install, PackageChange, Plan, Splice, Step
from tests.fix import wheel_house
from tests.fix.crashing import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene.make(tmp_path / "scene")


def aimed_at(scene: Scene, file: str) -> Plan:
    """A plan, as a hostile file might hold it, that edits this file."""
    plan = scene.plan(install=False)
    content = Path(file).read_bytes() if Path(file).exists() else None
    edit = FileEdit(
        file=file,
        before=None if content is None else digest(content),
        after=digest(b"evil" + (content or b"")),
        splices=(Splice(start=0, end=0, text="evil"),),
        diff="",
    )
    step: Step = replace(plan.steps[0], change=edit)
    return replace(plan, steps=(step,), projects=())


def test_plans_lead_nowhere_else(scene: Scene, tmp_path: Path) -> None:
    """A foreign path, `..`, a link, a link on the way, a relative path: refused, and nothing is written."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim").write_text("mine\n")
    (scene.prefix / "link").symlink_to(outside / "victim")
    (scene.prefix / "folder").symlink_to(outside)
    aims = [
        str(outside / "victim"),
        str(outside / "new"),
        f"{scene.prefix}/../../outside/victim",
        str(scene.prefix / "link"),
        str(scene.prefix / "folder/victim"),
        str(scene.prefix / "folder/new"),
        "relative",
        "",
        "/",
        f"{scene.prefix}/a\0b",
        str(scene.prefix),
    ]
    for aim in aims:
        with pytest.raises((Refused, OSError, ValueError)):
            check_file(aim, configs=(), roots=(str(scene.prefix), ""))
    for aim in aims[:6]:
        with pytest.raises(Exception, match=r"link|outside|plain|inside"):
            scene.run(aimed_at(scene, aim))

    assert [path.name for path in outside.iterdir()] == ["victim"]
    assert (outside / "victim").read_text() == "mine\n"


def test_a_plan_from_a_file_speaks_of_this_place_only(scene: Scene, tmp_path: Path) -> None:
    """A plan that calls the whole disk its project, or another environment its target, is refused."""
    plan = scene.plan(install=False)

    check_plan(plan, prefix=scene.prefix, here=scene.project)
    for other in (
        replace(plan, projects=("/",)),
        replace(plan, projects=(str(tmp_path),)),
        replace(plan, prefix="/usr"),
    ):
        with pytest.raises(Refused):
            check_plan(other, prefix=scene.prefix, here=scene.project)


def test_a_plan_makes_what_it_shows(scene: Scene) -> None:
    """A person agrees to the diff: splices that make another change, however sound by their digests, are not made."""
    plan = scene.plan(install=False)
    honest = plan.steps[0].change
    assert isinstance(honest, FileEdit)
    other = config.planned(honest.file, Path(honest.file).read_bytes(), {"flash_attn": "disabled"})
    assert other is not None
    forged = replace(plan, steps=(replace(plan.steps[0], change=replace(other, diff=honest.diff)),))
    before = scene.state()
    with pytest.raises(Stale, match="shows another change"):
        scene.run(forged)

    assert scene.state() == before


def test_a_link_bent_since_the_plan(scene: Scene, tmp_path: Path) -> None:
    """A folder on the way that has become a link leads nowhere."""
    plan = scene.plan(install=False)
    outside = tmp_path / "outside"
    scene.project.rename(outside)
    scene.project.symlink_to(outside)
    before = {file.name: file.read_bytes() for file in outside.iterdir() if file.is_file()}
    with pytest.raises(Exception, match="link"):
        scene.run(plan)

    assert {file.name: file.read_bytes() for file in outside.iterdir() if file.is_file()} == before


def test_a_journal_that_is_a_link(scene: Scene, tmp_path: Path) -> None:
    """Somebody else's folder is no place for a journal."""
    (scene.prefix / ".attn-doctor").symlink_to(tmp_path)

    with pytest.raises(JournalUnusable), held((scene.prefix,)):
        pass


def test_records_that_lead_out(scene: Scene, tmp_path: Path) -> None:
    """RECORD is anybody's text: what it names outside of the environment is neither copied nor put back."""
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    record = scene.site / "kernels-1.0.dist-info/RECORD"
    record.write_text(record.read_text() + f"{os.path.relpath(victim, scene.site)},,\n{victim},,\n")
    before = scene.state()
    scene.run(scene.plan())
    victim.write_text("changed\n")
    scene.undo()

    assert victim.read_text() == "changed\n"
    assert scene.state() == before


@pytest.mark.parametrize(
    "text",
    [
        "evil @ https://example.org/evil.whl",
        "evil @ file:///tmp/evil.whl",
        "--index-url=https://example.org",
        "-r /etc/passwd",
        "../../evil",
        "./evil.whl",
        "evil; rm -rf /",
        "evil; python_version > '3'",
        "-e .",
        "--find-links=/tmp",
        "evil\n--index-url=https://example.org",
        "evil==1.0 --hash=x",
        "",
        "a\nb",
    ],
)
def test_requirements_are_names_and_versions(text: str) -> None:
    """A recipe may not name a place to install from, nor an option of the installer."""
    wish = InstallRequest(requirements=(text,), no_deps=True, no_cache=False, reinstall=False)

    def never() -> installers.Installer:
        raise AssertionError("the installer was asked")

    with pytest.raises(Refused):
        resolve.resolve(wish, never)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("x", "1.0; rm"),
        ("x", "../../1"),
        ("x", "1.0\n--index-url=x"),
        ("../x", "1.0"),
        ("x y", "1.0"),
        ("", "1.0"),
        ("--x", "1 0"),
    ],
)
def test_answers_of_an_installer_are_checked(name: str, version: str) -> None:
    """Names and versions that are none do not become pins or paths."""
    report = {"install": [{"metadata": {"name": name, "version": version}, "download_info": {"url": "file:///x.whl"}}]}

    with pytest.raises(Refused):
        releases.from_pip_report(report)


@pytest.mark.parametrize(
    "header",
    [
        "Version: 2.0\n --index-url=https://evil.example",
        "Version: --index-url=x",
        "Version: 1.0; rm -rf /",
        "Version: ",
    ],
)
def test_metadata_that_is_no_version_is_no_constraint(tmp_path: Path, header: str) -> None:
    """A constraints file takes options: nothing but a name and a version gets into it."""
    info = tmp_path / "torch-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\n{header}\n\n")
    for name in ("--index-url=x", "a b", "a\n --index-url=x", "../x"):
        other = tmp_path / f"{len(list(tmp_path.iterdir()))}.dist-info"
        other.mkdir()
        (other / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\n")
    found = installed.installed((str(tmp_path),))

    assert set(found) <= {"torch"}
    assert all(one.pin is None for one in found.values())


def test_no_credentials_in_a_plan() -> None:
    """The user's index may carry a password; a plan is a file that gets around."""
    assert resolve._without_secrets("https://me:secret@index.example/simple") == "https://index.example/simple"
    release = releases.release("x", "1.0", "https://me:secret@index.example/x-1.0-py3-none-any.whl?token=1", {})
    assert release.source == "x-1.0-py3-none-any.whl"


def test_a_home_is_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stray .git in the home directory does not make all of it one project."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "work").mkdir()

    assert project_of(tmp_path / "work/train.yaml") == tmp_path / "work"
    (tmp_path / "work/.git").mkdir()
    assert project_of(tmp_path / "work/conf/train.yaml") == tmp_path / "work"


def test_plans_touch_sources_of_packages_alone(scene: Scene) -> None:
    """Below the environment: a package's own Python source, RECORD, our note. No start-up file, no script."""
    aims = [
        "bin/python",
        "lib/python3/site-packages/evil.pth",
        "lib/python3/site-packages/sitecustomize.py",
        "lib/python3/site-packages/kernels/data.bin",
        "lib/python3/site-packages/kernels-1.0.dist-info/METADATA",
        "lib/python3/site-packages/kernels-1.0.dist-info/entry_points.txt",
        "lib/python3/os.py",
        "pyvenv.cfg",
    ]
    before = scene.state()
    for aim in aims:
        with pytest.raises(Exception, match="no plan may touch"):
            scene.run(aimed_at(scene, str(scene.prefix / aim)))
    # An environment inside of the project is still one.
    inside = aimed_at(scene, str(scene.prefix / "bin/python"))
    with pytest.raises(Exception, match="no plan may touch"):
        scene.run(replace(inside, projects=(str(scene.folder),)))

    assert scene.state() == before
    for aim in ("fused/ops.py", "fused-1.0.dist-info/RECORD", "fused-1.0.dist-info/attn-doctor.json"):
        check_file(str(scene.site / aim), configs=(), roots=(), prefix=str(scene.prefix))


WHEEL = "kernels-2.0-py3-none-any.whl"
SHOWN = hashlib.sha256(b"the one that was shown").hexdigest()


def test_another_wheel_than_the_plan_was_shown_for(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A named file with other bytes than the plan was shown for: the installer is not even started."""
    mine = tmp_path / WHEEL
    mine.write_bytes(b"another one")
    change = Install(
        installer="pip", requirements=("kernels==2.0",), no_deps=True, no_cache=False, reinstall=False,
        changes=(PackageChange(name="kernels", before="1.0", after="2.0", source=WHEEL, sha256=SHOWN),),
        wheels=(str(mine),),
    )  # fmt: skip
    started: list[str] = []
    monkeypatch.setattr(installers.Installer, "_run", lambda self, name, *_: started.append(name))
    installer = installers.Installer(
        kind="pip", command=("pip",), target=scene.target, sources=installers.Sources(), folder=tmp_path
    )
    before = scene.state()
    with held((scene.prefix,)):
        run = begin(scene.prefix, "{}", "")
        with pytest.raises(AttnDoctorError, match="not the file that the plan was shown for"):
            stage(change, run, installer=installer)

    assert started == []
    assert scene.state() == before


@pytest.mark.process
def test_another_wheel_on_the_index(scene: Scene, tmp_path: Path) -> None:
    """pip holds what it fetches against the plan, and installs nothing of it."""
    house = tmp_path / "house"
    house.mkdir()
    wheel_house.wheel(house, WHEEL, ("kernels", "2.0"), {"kernels/__init__.py": b"version = 2\n"}, "py3-none-any")
    change = Install(
        installer="pip", requirements=("kernels==2.0",), no_deps=True, no_cache=False, reinstall=False,
        changes=(PackageChange(name="kernels", before="1.0", after="2.0", source=WHEEL, sha256=SHOWN),),
    )  # fmt: skip
    installer = installers.Installer(
        kind="pip", command=(sys.executable, "-m", "pip"), target=scene.target, folder=tmp_path,
        sources=installers.Sources(no_index=True, find_links=(str(house),)),
    )  # fmt: skip
    right = hashlib.sha256((house / WHEEL).read_bytes()).hexdigest()
    with pytest.raises(Refused, match="DO NOT MATCH THE HASHES"):
        installer.install_beside(change, {}, tmp_path / "wrong", tmp_path / "fetched", linked=False)
    fits = replace(change, changes=(replace(change.changes[0], sha256=right),))
    installer.install_beside(fits, {}, tmp_path / "right", tmp_path / "fetched", linked=False)

    assert not list((tmp_path / "wrong").rglob("*.py"))
    assert list((tmp_path / "right").rglob("kernels/__init__.py"))
