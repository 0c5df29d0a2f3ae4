"""A checkout is not replaced: it gets the diff between the two releases, for `git apply`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from attn_doctor.fix import shadow
from attn_doctor.fix.packages.checkout_diff import diff_of
from attn_doctor.fix.packages.installers import Installer
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.plans import Install, PackageChange

CHANGE = PackageChange(name="rotary", before="1.0", after="1.1")
_OLD = {"rotary/__init__.py": b"version = 1\n", "rotary/a.py": b"a = 1\r\nb = 2\r\nc = 3", "rotary/gone.py": b"x\n"}
_NEW = {"rotary/__init__.py": b"version = 1\n", "rotary/a.py": b"a = 1\r\nb = 5\r\nc = 3", "rotary/new.py": b"y\n"}


class Staging:
    """Has what an installer needs here."""

    kind = "pip"

    def __init__(self, folder: Path, releases: Mapping[str, Mapping[str, bytes]]) -> None:
        self.folder = folder
        self.releases = releases
        folder.mkdir()

    def install_beside(self, change: Install, wheels: object, into: Path, fetched: Path, *, linked: bool) -> Any:
        release = change.changes[0].after
        if release not in self.releases:
            raise Refused(f"no {release} there\nmore")
        site = into / "lib/python3/site-packages"
        for name, content in {**self.releases[release], f"rotary-{release}.dist-info/METADATA": b""}.items():
            (site / name).parent.mkdir(parents=True, exist_ok=True)
            (site / name).write_bytes(content)


def made(tmp_path: Path, checkout: Path | None, releases: Mapping[str, Mapping[str, bytes]]) -> tuple[str, str]:
    return diff_of(cast(Installer, Staging(tmp_path / "private", releases)), CHANGE, checkout)


@pytest.mark.process
@pytest.mark.parametrize("below", ["", "src", "python"])
def test_git_applies_it(tmp_path: Path, below: str) -> None:
    """Wherever the checkout has the package; files that come and go, and line ends, included."""
    checkout = tmp_path / "checkout"
    for name, content in _OLD.items():
        (checkout / below / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / below / name).write_bytes(content)
    text, words = made(tmp_path, checkout, {"1.0": _OLD, "1.1": _NEW})
    (tmp_path / "it.diff").write_bytes(text.encode())
    subprocess.run(["git", "apply", "--unsafe-paths", str(tmp_path / "it.diff")], cwd=checkout, check=True)

    assert {name: (checkout / below / name).read_bytes() for name in _NEW} == _NEW
    assert not (checkout / below / "rotary/gone.py").exists()
    assert "--3way" not in words


def test_a_checkout_that_has_gone_on(tmp_path: Path) -> None:
    """Said beforehand: the diff is between releases."""
    (tmp_path / "checkout/rotary").mkdir(parents=True)
    (tmp_path / "checkout/rotary/__init__.py").write_bytes(b"version = 1\n")
    (tmp_path / "checkout/rotary/a.py").write_bytes(b"mine = 1\n")

    assert "--3way" in made(tmp_path, tmp_path / "checkout", {"1.0": _OLD, "1.1": _NEW})[1]


@pytest.mark.parametrize(
    ("releases", "words"),
    [
        ({"1.1": _NEW}, "no diff can be made: no 1.0 there"),
        ({"1.0": _OLD, "1.1": {"rotary/a.py": b"x = 1\n" * 50_000}}, "merge that release instead"),
    ],
)
def test_no_diff(tmp_path: Path, releases: Mapping[str, Mapping[str, bytes]], words: str) -> None:
    """A version that was never released, and releases far apart."""
    text, said = made(tmp_path, None, releases)

    assert text == ""
    assert words in said


_MOUNTS = """\
21 1 8:1 / / rw - ext4 /dev/sda rw
22 21 0:40 / /over\\040lay rw shared:1 - overlay overlay rw
23 21 8:2 / /data rw - ext4 /dev/sdb rw
"""


@pytest.mark.parametrize(
    ("folder", "journal", "kind"),
    [
        ("/env", "/env", ""),
        ("/data/env", "/data/env", ""),
        ("/over lay/env", "/over lay/env", "overlay"),
        ("/env/site", "/data", "another file system"),
    ],
)
def test_what_a_link_costs(monkeypatch: pytest.MonkeyPatch, folder: str, journal: str, kind: str) -> None:
    """By the file systems that the folders and the journal lie on."""
    monkeypatch.setattr(shadow.Path, "read_text", lambda _: _MOUNTS)

    assert shadow.copying_kind((folder,), journal) == kind
