"""Which interpreter is examined, and why that one."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path

import pytest

from attn_doctor.errors import BadInput, TargetUnusable
from attn_doctor.machine.scratch import patient_environment
from attn_doctor.machine.target import chosen, examine_target


@pytest.fixture(autouse=True)
def _nothing_active(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=False)
    return folder


def test_a_named_interpreter(environment: Path, tmp_path: Path) -> None:
    """--python takes an interpreter or an environment folder; the report tells its own sys.executable."""
    for number, named in enumerate((environment, environment / "bin" / "python")):
        folder = tmp_path / str(number)
        folder.mkdir()
        target = examine_target(str(named), as_module=False, folder=folder, timeout=30)

        assert target.python.parent == environment / "bin"
        assert target.because == "--python"
        assert target.environment_kind == "venv"


def test_the_active_environment(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --python it is the active venv, then conda's, then the doctor's own."""
    assert [one.because for one in chosen(None, as_module=False)] == ["the interpreter attn-doctor runs in"]
    monkeypatch.setenv("CONDA_PREFIX", str(environment))
    assert chosen(None, as_module=False)[0].because == "CONDA_PREFIX is set"
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))
    assert chosen(None, as_module=False)[0].because == "VIRTUAL_ENV is set"


def test_conda_base_is_nobodys_choice(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """conda's base is active in every shell."""
    monkeypatch.setenv("CONDA_PREFIX", str(environment))
    monkeypatch.setenv("CONDA_DEFAULT_ENV", "base")

    assert len(chosen(None, as_module=False)) == 1


def test_python_dash_m_means_that_python(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m attn_doctor` examines that Python, whatever is active."""
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))

    assert [one.python for one in chosen(None, as_module=True)] == [Path(sys.executable)]


def test_an_environment_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stale VIRTUAL_ENV is said, and does not stand in the way."""
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "gone"))

    (own,) = chosen(None, as_module=False)
    assert own.python == Path(sys.executable)
    assert "gone holds no Python" in own.because


def test_other_candidates_with_torch_are_told(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With torch in two places the report says which was taken."""
    other = tmp_path / "other"
    venv.create(other, with_pip=False)
    site = next((other / "lib").glob("python3*")) / "site-packages" / "torch"
    site.mkdir()
    (site / "version.py").write_text("")
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))
    monkeypatch.setenv("CONDA_PREFIX", str(other))
    target = examine_target(None, as_module=False, folder=tmp_path, timeout=30)

    assert str(other / "bin" / "python") in target.others


@pytest.mark.parametrize("kind", ["missing", "folder", "text"])
def test_what_is_no_interpreter(tmp_path: Path, kind: str) -> None:
    """A wrong --python is the person's mistake."""
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    if kind == "text":
        path.write_text("hello")

    with pytest.raises(BadInput):
        chosen(str(path), as_module=False)


@pytest.mark.parametrize("script", ["exit 0", "exit 3", "sleep 600", "kill -9 $$"])
def test_what_does_not_answer(tmp_path: Path, script: str) -> None:
    """Something that starts and tells nothing about itself cannot be examined."""
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)

    with pytest.raises(TargetUnusable):
        examine_target(str(fake), as_module=False, folder=tmp_path, timeout=1)


def test_code_of_the_patients_writes_in_the_private_folder(tmp_path: Path) -> None:
    """Caches and HOME point into it; the user's own site-packages stay where they are."""
    made = patient_environment(tmp_path, {"HOME": "/home/x", "PATH": "/bin"})

    assert Path(made["HOME"]).parent == tmp_path
    assert made["TRITON_CACHE_DIR"].startswith(str(tmp_path))
    assert made["PYTHONUSERBASE"] == os.path.join("/home/x", ".local")
    assert made["HF_HUB_OFFLINE"] == "1"
