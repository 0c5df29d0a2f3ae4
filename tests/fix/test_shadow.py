"""The shadow on which a change is proven, and what a plan says of it."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest
from rich.console import Console

from attn_doctor.fix.journal.exchange import Exchange, Swap
from attn_doctor.fix.journal.file_state import state_of
from attn_doctor.fix.journal.journal import Run
from attn_doctor.fix.packages.installed import Installed, dependants
from attn_doctor.fix.shadow import Shadow
from attn_doctor.model.findings import Safety
from attn_doctor.model.plans import FileEdit, Install, Plan, Reversal, Step
from attn_doctor.quick_dataclasses import replace
from attn_doctor.report.terminal import plan as plan_text

SITE = "lib/python3.11/site-packages"
FILES = (
    "bin/python", "pyvenv.cfg", "share/doc/a", f"{SITE}/changes/__init__.py", f"{SITE}/changes/deep/old.py",
    f"{SITE}/needs/__init__.py", f"{SITE}/stays/__init__.py", f"{SITE}/stays/deep/a.py",
    f"{SITE}/paths.pth",
)  # fmt: skip


@pytest.fixture
def env(tmp_path: Path) -> Path:
    folder = tmp_path / "env"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / f"{SITE}/paths.pth").write_text(f"{folder}/{SITE}/stays\n")
    (folder / "lib64").symlink_to("lib")
    long_ago = time.time() - 60
    for place, _, names in os.walk(folder):
        for name in names:
            os.utime(Path(place) / name, (long_ago, long_ago), follow_symlinks=False)
    return folder


def made(env: Path, *, everything: bool = False) -> Shadow:
    shadow = Shadow(folders={str(env): str(env / ".attn-doctor/shadow/0")}, sites=(str(env / SITE),))
    apart = (env / "bin/python", env / f"{SITE}/changes/__init__.py", env / f"{SITE}/needs/__init__.py")
    shadow.make(env / ".attn-doctor/shadow", map(str, apart), everything=everything)
    return shadow


def test_what_does_not_change_is_one_link(env: Path) -> None:
    """Folders of packages that change, or need what changes, are linked file by file; others are shared whole."""
    shadow = made(env)
    there = Path(shadow.folders[str(env)])

    assert {str(one.relative_to(there)) for one in there.rglob("*") if one.is_symlink()} == {
        "lib64", "share", f"{SITE}/stays",
    }  # fmt: skip
    assert set(shadow.shared) == {str(env / "share"), str(env / f"{SITE}/stays")}
    for name in FILES:
        assert (there / name).samefile(env / name)
    assert not (there / ".attn-doctor").exists()


def test_a_shared_library_leads_out_of_its_folder(env: Path) -> None:
    """Where one changes, `..` of every run path must stay in the shadow: nothing is shared."""
    shadow = made(env, everything=True)
    there = Path(shadow.folders[str(env)])

    assert shadow.shared == []
    assert (there / f"{SITE}/stays/../changes").resolve() == there / f"{SITE}/changes"


def test_old_files_are_gone_and_new_ones_in_place(env: Path, tmp_path: Path) -> None:
    """And nothing of that reaches the environment."""
    shadow = made(env)
    there = Path(shadow.folders[str(env)])
    run = Run(home=env, id="run")
    (run.folder / "stage").mkdir(parents=True)
    (run.folder / "stage/new").write_text("new")
    old, new = env / f"{SITE}/changes/deep/old.py", env / f"{SITE}/changes/__init__.py"
    swap = Swap(
        exchanges=(
            Exchange(file=str(old), owner="changes", before=state_of(old), after=None, kept="kept/0", staged=""),
            Exchange(
                file=str(new), owner="changes", before=state_of(new), after=state_of(run.folder / "stage/new"),
                kept="kept/1", staged="stage/new",
            ),
        )
    )  # fmt: skip
    shadow.exchange(run, swap)

    assert not (there / f"{SITE}/changes/deep/old.py").exists()
    assert (there / f"{SITE}/changes/__init__.py").read_text() == "new"
    assert (there / f"{SITE}/paths.pth").read_text() == f"{there}/{SITE}/stays\n"
    assert (env / f"{SITE}/paths.pth").read_text() == f"{env}/{SITE}/stays\n"
    assert new.read_text() == FILES[3]
    assert shadow.written_through() == ()


@pytest.mark.parametrize("file", [f"{SITE}/needs/__init__.py", f"{SITE}/stays/deep/a.py"])
def test_what_is_written_through_a_link_is_seen(env: Path, file: str) -> None:
    """In a folder that is shared as in one that is not."""
    shadow = made(env)
    time.sleep(0.02)  # longer than a tick of the file system's clock
    with (Path(shadow.folders[str(env)]) / file).open("a") as stream:
        stream.write("more")

    assert shadow.written_through() == (str(env / file),)


def test_what_is_made_in_a_shared_folder_is_seen(env: Path) -> None:
    """Compiled files apart, which any import may write."""
    shadow = made(env)
    time.sleep(0.02)
    shared = Path(shadow.folders[str(env)]) / f"{SITE}/stays/deep"
    (shared / "cache").mkdir()

    deep = env / f"{SITE}/stays/deep"
    assert set(shadow.written_through()) == {str(deep), str(deep / "cache")}


def test_an_exchange_in_a_shared_folder_is_refused(env: Path) -> None:
    """It would reach the environment."""
    shadow = made(env)
    file = env / f"{SITE}/stays/__init__.py"
    one = Exchange(file=str(file), owner="stays", before=state_of(file), after=None, kept="kept/0", staged="")
    with pytest.raises(OSError, match="stays"):
        shadow.exchange(Run(home=env, id="run"), Swap(exchanges=(one,)))

    assert file.read_text() == f"{SITE}/stays/__init__.py"


def needing(name: str, *needs: str) -> Installed:
    return Installed(name=name, version="1", info=Path("/nowhere"), needs=needs)


def test_dependants() -> None:
    """Of dependants as well, nearest first; a circle ends."""
    every = (
        needing("far", "near>=1"), needing("near", 'X_Changes[extra]==1 ; python_version > "3"', "far"),
        needing("x-changes", "near"), needing("else", "numpy"),
    )  # fmt: skip

    assert [one.name for one in dependants(every, frozenset({"x-changes"}))] == ["near", "far"]


USR = "/usr/lib/python3/dist-packages"
INSTALL = Install(installer="pip", requirements=("a",), no_deps=True, no_cache=False, reinstall=False, changes=())
EDIT = FileEdit(file=f"{USR}/a/b.py", before="", after="", splices=(), diff="")


@pytest.mark.parametrize(
    ("change", "sites", "words", "not_words"),
    [
        (INSTALL, (), "before the change, on a copy of the environment by links", "path of a process"),
        (replace(EDIT, file="/env/a.py"), (), "before the change, on a copy of the environment by links", "after"),
        (replace(EDIT, file="/etc/a"), (), "after the change", "before"),
        (
            INSTALL,
            (USR,),
            "on the path of a process of our own",
            "copy of the environment",
        ),
        (INSTALL, (USR,), "such as a script, after the change", "copy of the environment"),
        (EDIT, (USR,), "on the path of a process of our own", "such as a script"),
        (replace(EDIT, file="/env/share/a"), ("/env/lib/site-packages",), "after the change", "before"),
        (replace(INSTALL, users_base="/home/me/.local"), ("/usr/lib/site-packages",), "after the change", "before"),
        (replace(INSTALL, users_base="/home/me/.local"), ("/home/me/.local/lib/site-packages",), "before", "nothing"),
        (replace(EDIT, file="/project/uv.lock", is_list=True), (), "none: it records the change", "before"),
    ],
)
def test_the_plan_says_where_it_is_proven(
    change: Install | FileEdit, sites: tuple[str, ...], words: str, not_words: str
) -> None:
    """On the environment's copy, or on copies of an interpreter's site folders; and what only afterwards."""
    step = Step(change=change, cures=(), safety=Safety.SAFE, why_this_safety="", reversal=Reversal.EXACT)
    plan = Plan(
        doctor_version="0", python="", prefix="/env", configs=(), projects=(), steps=(step,), left=(), grounds=(),
        site_folders=sites,
    )  # fmt: skip
    console = Console(width=400, file=io.StringIO(), record=True)
    plan_text.write(plan, console, verbose=False)
    (row,) = (line for line in console.export_text().splitlines() if line.strip().startswith("proof"))

    assert words in row
    assert not_words not in row
