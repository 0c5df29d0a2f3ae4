"""Packages of the user's own folder are exchanged there, and its journal is found again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attn_doctor.fix.journal import homes
from attn_doctor.fix.journal.journal import begin
from attn_doctor.fix.packages.scheme import scheme_for, schemes
from attn_doctor.fix.packages.stage import _Place
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.target import Target
from attn_doctor.model.plans import Install
from attn_doctor.quick_dataclasses import replace
from tests.fix.crashing import Scene


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """`old` and `both` in the user's folder, `own` and `both` in the interpreter's."""
    user, own = tmp_path / "user/lib/python3.11/site-packages", tmp_path / "usr/lib/python3.11/dist-packages"
    for site, names in ((user, ("old", "both")), (own, ("own", "both"))):
        for name in names:
            (site / f"{name}-1.dist-info").mkdir(parents=True)
            (site / f"{name}-1.dist-info/METADATA").write_text(f"Name: {name}\nVersion: 1\n")
    told: dict[str, Any] = {
        "prefix": str(tmp_path / "usr"), "base_prefix": str(tmp_path / "usr"), "data": str(tmp_path / "usr"),
        "purelib": str(own), "platlib": str(own), "user_base": str(tmp_path / "user"), "user_site": str(user),
        "user_site_enabled": True,
    }  # fmt: skip
    return Target(python=tmp_path / "usr/bin/python", because="", environment_kind="system", told=told)


@pytest.mark.parametrize(("names", "users"), [(("old",), True), (("both", "new"), True), (("own",), False)])
def test_where_the_packages_are(target: Target, names: tuple[str, ...], users: bool) -> None:
    """The one that programs find is exchanged; what is new goes beside it."""
    assert scheme_for(names, target).users is users


def test_in_both(target: Target) -> None:
    """One step is about one place."""
    with pytest.raises(Refused, match="old lies in the user's own folder"):
        scheme_for(("old", "own"), target)


def test_a_virtual_environment_has_one(target: Target) -> None:
    """Whatever else is on its path."""
    told = {**target.told, "prefix": "/elsewhere"}
    assert [one.users for one in schemes(replace(target, told=told))] == [False]


@pytest.mark.parametrize("laid_out", ["lib/python3.11/site-packages", "local/lib/python3.11/dist-packages"])
def test_however_the_installer_lays_out_a_prefix(target: Target, tmp_path: Path, laid_out: str) -> None:
    """Debian's Python has another scheme below a prefix than the one in which its packages lie."""
    stage = tmp_path / "stage" / laid_out
    script = stage.parents[2] / "bin/tool"
    users, own = schemes(target)

    assert _Place.of(own, stage).placed(stage / "a/b.py") == Path(own.purelib) / "a/b.py"
    assert _Place.of(users, stage).placed(stage / "a/b.py") == Path(users.purelib) / "a/b.py"
    assert _Place.of(users, stage).placed(script) == tmp_path / "user/bin/tool"


def test_the_journal_lies_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found from the interpreter, and not from another one that shares the folder."""
    monkeypatch.setenv("PYTHONUSERBASE", str(tmp_path / "user"))
    scene = Scene.make(tmp_path / "scene")
    plan = scene.plan()
    (scene.prefix / "pyvenv.cfg").unlink()
    (step,) = (step for step in plan.steps if isinstance(step.change, Install))
    change = replace(step.change, users_base=str(tmp_path / "user"))
    home, locked = homes.homes_of(replace(plan, steps=(replace(step, change=change),)))
    (home / ".attn-doctor/runs").mkdir(parents=True)
    run = begin(home, f'{{"prefix": "{scene.prefix}"}}', "")

    assert home == tmp_path / "user"
    assert locked == (home,)
    assert home in homes.known_homes(scene.prefix, ())
    assert homes.runs_about(scene.prefix, home) == (run,)
    assert homes.runs_about(tmp_path / "another", home) == ()
