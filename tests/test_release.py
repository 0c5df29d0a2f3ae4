"""What a release is made with: the script refuses what is not ready, and the pinned versions are whole."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from scripts import release

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("heading", "ready"),
    [
        ("## [1.2.0] - 2026-11-22", True),
        ("## [1.2.0] (unreleased)", False),
        ("## [1.2.0]", False),
        ("## [1.2.01] - 2026-11-22", False),
        ("### [1.2.0] - 2026-11-22", False),
    ],
)
def test_a_release_has_a_date(heading: str, ready: bool) -> None:
    """Only a heading of this very version with a date will do."""
    text = f"# Changelog\n\n{heading}\n\n- something\n"

    if ready:
        release.require_dated_changelog(text, "1.2.0")
    else:
        with pytest.raises(release.NotReleasable, match=r"1\.2\.0"):
            release.require_dated_changelog(text, "1.2.0")


def test_a_failing_step_tells_its_last_lines() -> None:
    """The reason is what the command said, not a traceback."""
    with pytest.raises(release.NotReleasable, match="ended with 3:\nno such luck"):
        release.run(["sh", "-c", "echo no such luck >&2; exit 3"])


def test_changes_are_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is released from a checkout that differs from its commit."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "new.py").write_text("")
    real = release.run
    monkeypatch.setattr(release, "run", lambda command: real(command, folder=tmp_path))

    with pytest.raises(release.NotReleasable, match=r"new\.py"):
        release.require_clean_checkout()


def test_the_version_is_the_packages() -> None:
    """The script reads the version without importing the package."""
    import attn_doctor

    assert release.version() == attn_doctor.__version__
    assert Version(release.version())


def test_the_pinned_versions_are_whole() -> None:
    """constraints.txt has every direct dependency with hashes, no torch, and names no host."""
    text = (ROOT / "constraints.txt").read_text()
    pinned = re.findall(r"^([A-Za-z0-9_.-]+)==", text, re.MULTILINE)
    project = (ROOT / "pyproject.toml").read_text()
    blocks = re.findall(r"^(?:dependencies|dev) = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    wanted = {
        canonicalize_name(Requirement(line).name)
        for block in blocks
        for line in re.findall(r'^  "([^"]+)"', block, re.MULTILINE)
    }

    assert len(blocks) == 2
    assert {name for name in wanted if name not in {canonicalize_name(one) for one in pinned}} == set()
    assert "torch" not in pinned
    assert "://" not in text
    assert all("--hash=sha256:" in block for block in re.split(r"\n(?=\S)", text.strip()))
