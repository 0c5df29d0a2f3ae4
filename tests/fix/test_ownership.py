"""Who else has a say about an installed package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attn_doctor.fix.packages.installed import Installed
from attn_doctor.fix.packages.ownership import broken_requirements, check_origin
from attn_doctor.fix.proof import unmet_requirements
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.plans import PackageChange

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
