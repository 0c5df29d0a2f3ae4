"""The two commands of the README, and its pictures."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import fresh
from scripts import test as run_tests
from tests.conftest import CHECKOUT, clean_environment

ROOT = Path(__file__).resolve().parent.parent


def _report(*required: str) -> str:
    torch = {"name": "torch", "version": "2.13.0", "requires_dist": list(required)}
    return json.dumps({"install": [{"metadata": torch}]})


@pytest.mark.parametrize(
    ("required", "cuda"),
    [
        ((), False),
        (("filelock", "sympy>=1.13"), False),
        (("filelock", 'nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"'), True),
        (('cuda-bindings>=13; platform_system == "Linux"',), True),
    ],
)
def test_a_torch_with_cuda_is_told_apart(required: tuple[str, ...], cuda: bool) -> None:
    """By what it requires, whatever its version is called."""
    assert fresh.brings_cuda(_report(*required)) is cuda


@pytest.mark.parametrize(
    ("backend", "status", "said", "own_index"),
    [
        ("auto", 0, _report("sympy"), False),
        ("auto", 0, _report("nvidia-cublas"), True),
        ("auto", 1, "", True),
        ("cpu", 0, _report("sympy"), True),
    ],
)
def test_where_torch_comes_from(
    monkeypatch: pytest.MonkeyPatch, backend: str, status: int, said: str, own_index: bool
) -> None:
    """From the index that pip is set to, unless that would bring CUDA, has none, or torch's own was asked for."""
    ended = subprocess.CompletedProcess([], status, said, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)

    assert fresh.torch_source(Path("python"), backend) == (["--index-url", fresh.CPU_INDEX] if own_index else [])


class TestScratch:
    """Where the tests write."""

    def test_a_folder_in_memory_that_is_gone_afterwards(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.delenv("TMPDIR", raising=False)
        monkeypatch.setattr(run_tests, "IN_MEMORY", tmp_path)
        monkeypatch.setattr(run_tests, "ROOM", 1)
        monkeypatch.setattr(run_tests, "MEMORY", 1)
        with run_tests.scratch() as variables:
            folder = Path(variables["TMPDIR"])
            assert folder.parent == tmp_path
            (folder / "left").touch()

        assert not folder.exists()

    @pytest.mark.parametrize(("name", "value"), [("ROOM", 1 << 60), ("MEMORY", 1 << 60), ("IN_MEMORY", Path("/none"))])
    def test_where_there_is_no_room_it_stays_as_it_is(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: object
    ) -> None:
        monkeypatch.delenv("TMPDIR", raising=False)
        monkeypatch.setattr(run_tests, "IN_MEMORY", tmp_path)
        monkeypatch.setattr(run_tests, name, value)
        with run_tests.scratch() as variables:
            assert variables == {}

    def test_a_folder_that_somebody_chose_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TMPDIR", "/chosen")
        with run_tests.scratch() as variables:
            assert variables == {}


@pytest.mark.parametrize("picture", sorted((ROOT / "docs" / "pictures").glob("*.svg")), ids=lambda file: file.stem)
def test_pictures_stand_by_themselves(picture: Path) -> None:
    """Nothing is loaded from elsewhere, no place of a machine is shown, and a reader who does not see is told what."""
    text = picture.read_text()

    assert not re.search(r"url\((?!#)|@import|<script|<image|href=\"http", text)
    assert not re.search(r"/(?:work|tmp|root|home)/", text)
    assert 'role="img" aria-label="Output of attn-doctor' in text


def test_pictures_of_the_readme_are_there() -> None:
    """Both themes, with words for who does not see them."""
    readme = (ROOT / "README.md").read_text()
    named = re.findall(r"docs/pictures/[\w-]+\.svg", readme)

    assert len(named) == 2
    assert all((ROOT / one).exists() for one in named)
    assert re.search(r'<img alt="[^"]{40,}"', readme)


@pytest.mark.heavy
@pytest.mark.registry
def test_the_first_command_from_a_fresh_home(tmp_path: Path) -> None:
    """A diagnosis of the embedded patient by its files, with a fix to type; nothing is left in the checkout."""
    before = _untracked(CHECKOUT)
    ended = subprocess.run(
        [sys.executable, CHECKOUT / "scripts" / "diagnose.py", "--no-torch"],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
        env=clean_environment(HOME=str(tmp_path), XDG_CACHE_HOME=None, PATH="/usr/local/bin:/usr/bin:/bin"),
    )  # fmt: skip

    assert ended.returncode == 0, ended.stderr
    assert "x-transformers-rotary-fp32" in ended.stdout
    assert "pip install --no-deps x-transformers==1.30.2" in ended.stdout
    assert "without torch only what its files show" in ended.stderr
    assert "Warning" not in ended.stderr
    assert [one.name for one in (tmp_path / ".cache" / "attn-doctor").iterdir() if one.name == "patient"]
    assert _untracked(CHECKOUT) == before


@pytest.mark.heavy
@pytest.mark.registry
def test_the_second_command_in_a_fresh_clone(tmp_path: Path) -> None:
    """It makes .venv with a torch that brings nothing of CUDA, and runs the tests that it is given."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(clone)], check=True)
    ended = subprocess.run(
        [sys.executable, "scripts/test.py", "-m", "unit", "tests/model"],
        cwd=clone, capture_output=True, text=True, timeout=1800, check=False,
        env=clean_environment(HOME=str(tmp_path)),
    )  # fmt: skip

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not list((clone / ".venv" / "lib").glob("*/site-packages/nvidia*"))
    assert _untracked(clone) == ""


def _untracked(checkout: Path) -> str:
    if shutil.which("git") is None or not (checkout / ".git").exists():
        return ""
    asked = ["git", "status", "--porcelain", "--untracked-files=all"]
    return subprocess.run(asked, cwd=checkout, capture_output=True, text=True, check=True).stdout
