"""Who else has a say about an installed package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attn_doctor.fix import proof
from attn_doctor.fix.packages.installed import Installed
from attn_doctor.fix.packages.ownership import broken_requirements, check_origin, unmet_requirements
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.target import Target
from attn_doctor.model.facts import Fact, FactName, FactSet, Known
from attn_doctor.model.plans import Install, PackageChange
from attn_doctor.quick_dataclasses import replace
from attn_doctor.workflows.fix import session

CHANGE = PackageChange(name="x-transformers", before="1.30.1", after="1.30.2")


def there(site: Path, said: object = None, *, record: bool = True, name: str = "x_transformers") -> Installed:
    info = site / f"{name}-1.30.1.dist-info"
    info.mkdir()
    if said is not None:
        (info / "direct_url.json").write_text(json.dumps(said))
    if record:
        (info / "RECORD").write_text("")
    return Installed(name="x-transformers", version="1.30.1", info=info)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"url": "file:///home/me/x-transformers", "dir_info": {"editable": True}}, "editable .*of /home/me/x-tr"),
        ({"url": "https://me:secret@git.example/x", "vcs_info": {"vcs": "git", "commit_id": "0123456789abcdef"}},
         "https://git.example/x at commit 0123456789ab,"),
    ],
)  # fmt: skip
def test_a_checkout_is_not_replaced(tmp_path: Path, said: object, words: str) -> None:
    """A wheel would silently take its place."""
    with pytest.raises(Refused, match=words) as refused:
        check_origin((CHANGE,), (there(tmp_path, said),))
    assert "secret" not in str(refused.value)


def test_nobody_knows_its_files(tmp_path: Path) -> None:
    """Without RECORD: what to do first."""
    with pytest.raises(Refused, match=r"no RECORD.*--force-reinstall"):
        check_origin((CHANGE,), (there(tmp_path, record=False),))


def test_what_is_told(tmp_path: Path) -> None:
    """A wheel of one's own, and two installations of one name."""
    one = there(tmp_path, {"url": "file:///wheels/x.whl", "archive_info": {}})
    other = there(tmp_path, name="X_Transformers")

    notes = check_origin((CHANGE,), (one, other))
    assert any("came from /wheels/x.whl" in note for note in notes)
    assert any("installed twice" in note for note in notes)
    assert check_origin((CHANGE,), ()) == ()


def needing(name: str, *needs: str) -> Installed:
    return Installed(name=name, version="1.0", info=Path(f"/nowhere/{name}-1.0.dist-info"), needs=needs)


@pytest.mark.parametrize(
    ("need", "broken"),
    [
        ("x-transformers==1.30.1", True),
        ("X_Transformers<1.30.2", True),
        ("x-transformers>=1.30", False),
        ("x-transformers==1.29", False),  # not met today either
        ("x-transformers==1.30.1; extra == 'test'", False),
        ("x-transformers==1.30.1; sys_platform == 'win32'", False),
        ("not a requirement at all ==", False),
    ],
)
def test_requirements_of_everything_installed(need: str, broken: bool) -> None:
    """Those that are met today count, and those of this platform."""
    every = (needing("other", need), Installed(name="x-transformers", version="1.30.1", info=Path("/nowhere")))
    found = broken_requirements((CHANGE,), every, {"sys_platform": "linux"})

    assert bool(found) is broken
    after = (needing("other", need), Installed(name="x-transformers", version="1.30.2", info=Path("/nowhere")))
    known = unmet_requirements(every, {"sys_platform": "linux"})
    assert bool(unmet_requirements(after, {"sys_platform": "linux"}).keys() - known.keys()) is broken


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"version": "1.30.1", "shadowed_by": "/home/me/x_transformers"}, "hidden by /home/me/x_transformers"),
        ({"version": "1.30.1"}, "outside of this environment's own folders"),
    ],
)
def test_a_copy_that_comes_first_on_the_path(known: dict[str, str], words: str) -> None:
    """Foreseen: the release would be installed, and programs would find the other one."""
    found = [
        Fact(name=FactName("package", CHANGE.name, name), state=Known(text), how="") for name, text in known.items()
    ]
    before = CHANGE.before if "shadowed_by" in known else None
    install = Install(
        installer="pip", requirements=(), no_deps=True, no_cache=False, reinstall=False,
        changes=(replace(CHANGE, before=before),),
    )  # fmt: skip
    with pytest.raises(Refused, match=words):
        session._check_reached(install, FactSet(found))


def test_requirements_that_an_exchange_breaks(tmp_path: Path) -> None:
    """`pip check` is never worse afterwards: what was met and is not is told, what was unmet before is not."""
    targets = []
    for folder, version in (("before", "1.30.1"), ("after", "1.30.2")):
        site = tmp_path / folder
        for name, text in {
            "x_transformers": f"Name: x-transformers\nVersion: {version}\n",
            "trainer": "Name: trainer\nVersion: 1\nRequires-Dist: x-transformers==1.30.1\nRequires-Dist: absent\n",
        }.items():
            (site / f"{name}.dist-info").mkdir(parents=True)
            (site / f"{name}.dist-info/METADATA").write_text(text)
        told = {"sys_path": [str(site)], "markers": {}}
        targets.append(Target(python=Path("python"), because="", environment_kind="venv", told=told))

    assert proof.broken_requirements(*targets) == ("trainer 1 needs x-transformers==1.30.1, and there would be 1.30.2",)
    assert proof.broken_requirements(*reversed(targets)) == ()
