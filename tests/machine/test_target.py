"""Which interpreter is examined, and why that one."""

from __future__ import annotations

import os
import shutil
import sys
import venv
from pathlib import Path

import pytest

from attn_doctor.errors import BadInput, TargetUnusable
from attn_doctor.machine import trust
from attn_doctor.machine.candidates import candidates
from attn_doctor.machine.scratch import absolute_search_paths, patient_environment
from attn_doctor.machine.target import examine_target


@pytest.fixture(autouse=True)
def _nothing_active(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No environment is active, none lies here or above, and no other python is on PATH."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)


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
    """Without --python it is the active venv, then conda's, then the doctor's own, and that is said."""
    (own,) = candidates(None, as_module=False).choices
    assert own.python == Path(sys.executable)
    assert own.because.startswith("the interpreter attn-doctor runs in; no environment is active")
    monkeypatch.setenv("CONDA_PREFIX", str(environment))
    assert candidates(None, as_module=False).first.because == "CONDA_PREFIX is set"
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))
    assert candidates(None, as_module=False).first.because == "VIRTUAL_ENV is set"


def test_conda_base_is_nobodys_choice(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """conda's base is active in every shell."""
    monkeypatch.setenv("CONDA_PREFIX", str(environment))
    monkeypatch.setenv("CONDA_DEFAULT_ENV", "base")

    assert len(candidates(None, as_module=False).choices) == 1


def test_python_dash_m_means_that_python(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m attn_doctor` examines that Python, whatever is active."""
    monkeypatch.setenv("VIRTUAL_ENV", str(environment))

    assert [one.python for one in candidates(None, as_module=True).choices] == [Path(sys.executable)]


def test_an_environment_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stale VIRTUAL_ENV is said; what is examined in its place proves no health."""
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "gone"))
    found = candidates(None, as_module=False)

    assert found.first.python == Path(sys.executable)
    assert "gone holds no Python" in found.because
    assert found.dead == (f"VIRTUAL_ENV={tmp_path / 'gone'} holds no Python",)


class TestWhereNothingIsActive:
    """The nearest .venv, then python on PATH."""

    @pytest.fixture
    def project(self, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A project with a .venv, seen from a folder below it."""
        project = tmp_path / "project"
        (project / "src" / "deep").mkdir(parents=True)
        shutil.copytree(environment, project / ".venv", symlinks=True)
        monkeypatch.chdir(project / "src" / "deep")
        return project

    def test_the_nearest_environment_counts(self, project: Path) -> None:
        """As uv has it: here or in a folder above."""
        first = candidates(None, as_module=False).first

        assert first.python == project / ".venv" / "bin" / "python"
        assert first.because == f"{project / '.venv'} is the nearest environment here"

    def test_inside_of_an_environment_it_is_that_one(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A folder that is an environment itself needs no .venv in it."""
        monkeypatch.chdir(project / ".venv" / "lib")

        assert candidates(None, as_module=False).first.python == project / ".venv" / "bin" / "python"

    def test_what_is_active_comes_first(
        self, project: Path, environment: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A .venv that lies about is not what an activated shell means."""
        monkeypatch.setenv("VIRTUAL_ENV", str(environment))
        found = candidates(None, as_module=False)

        assert [one.python for one in found.choices[:2]] == [
            environment / "bin" / "python", project / ".venv" / "bin" / "python",
        ]  # fmt: skip
        assert found.because == "VIRTUAL_ENV is set"

    @pytest.mark.parametrize("open_to", [0o777, 0o775])
    @pytest.mark.parametrize("which", [".", ".venv", ".venv/bin", ".venv/pyvenv.cfg", "elsewhere"])
    def test_one_that_others_can_write_does_not_count(
        self, project: Path, which: str, open_to: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither the folder nor one on the way to it, nor where a link in it leads; and that is said."""
        monkeypatch.setattr(trust, "_is_own_group", lambda *_: False)
        if which == "elsewhere":
            (project / "elsewhere").mkdir()
            (project / ".venv").rename(project / "elsewhere" / "real")
            (project / ".venv").symlink_to("elsewhere/real")
        (project / which).chmod(open_to)
        found = candidates(None, as_module=False)

        assert found.first.python == Path(sys.executable)
        assert f"{project / '.venv'} does not count: " in found.because
        assert f"can write in {(project / which).resolve()}" in found.because

    def test_a_sticky_folder_on_the_way_is_no_harm(self, project: Path) -> None:
        """In /tmp everybody can make files and nobody can take another's away."""
        project.chmod(0o1777)

        assert candidates(None, as_module=False).first.python == project / ".venv" / "bin" / "python"

    def test_one_that_another_user_owns_does_not_count(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It would run that user's code as us."""
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        if os.getuid() == 0:
            os.lchown(project / ".venv", 4712, -1)

        assert candidates(None, as_module=False).first.python == Path(sys.executable)

    def test_a_broken_one_is_said(self, project: Path) -> None:
        """Its Python is gone: it was meant, and cannot be examined."""
        for link in (project / ".venv" / "bin").glob("python*"):
            link.unlink()
        found = candidates(None, as_module=False)

        assert found.dead == (f"{project / '.venv'} holds no Python",)

    @pytest.mark.parametrize("name", ["python", "python3"])
    def test_python_on_path_is_next(
        self, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """What `python` starts in this shell; a relative entry of PATH is seen from here."""
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / name).symlink_to(environment / "bin" / "python")
        monkeypatch.setenv("PATH", "bin")
        found = candidates(None, as_module=False)

        assert found.first.python == tmp_path / "bin" / name
        assert found.because == f"{name} on PATH"
        assert found.first.folder == tmp_path

    def test_the_doctors_own_python_on_path_is_no_other_one(
        self, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A runner puts the doctor's own environment first on PATH; what comes behind it is what people mean."""
        own = tmp_path / "own"
        venv.create(own, with_pip=False)
        monkeypatch.setattr(sys, "executable", str(own / "bin" / "python"))
        monkeypatch.setenv("PATH", f"{own / 'bin'}{os.pathsep}{environment / 'bin'}")
        assert candidates(None, as_module=False).first.python == environment / "bin" / "python"

        site = next((own / "lib").glob("python3*")) / "site-packages"
        (site / "torch").mkdir()  # an image with everything in one environment
        assert candidates(None, as_module=False).first.python == own / "bin" / "python"


class TestRelativePaths:
    """The interpreter is started in another folder: no name that a person gives may depend on the current one."""

    @pytest.mark.parametrize("spelled", ["env", "./env", "env/bin/python", "sub/../env"])
    def test_a_named_one(self, environment: Path, tmp_path: Path, spelled: str) -> None:
        """Absolute, and no link resolved."""
        (tmp_path / "env").symlink_to(environment)
        (tmp_path / "sub").mkdir()
        (tmp_path / "scratch").mkdir()
        target = examine_target(spelled, as_module=False, folder=tmp_path / "scratch", timeout=30)

        assert target.python.is_absolute()
        assert target.python.parent.samefile(environment / "bin")
        assert target.prefix.name == "env"

    @pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
    def test_the_active_one(
        self, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        """A script may set a relative one."""
        (tmp_path / "env").symlink_to(environment)
        monkeypatch.setenv(variable, "env")
        (tmp_path / "scratch").mkdir()

        assert examine_target(None, as_module=False, folder=tmp_path / "scratch", timeout=30).prefix.name == "env"

    def test_folders_in_which_the_patient_looks(self, tmp_path: Path) -> None:
        """PYTHONPATH and LD_LIBRARY_PATH are seen from where the person is."""
        made = absolute_search_paths({"PYTHONPATH": "src:/abs:", "LD_LIBRARY_PATH": "lib", "HOME": "x"})

        assert made == {
            "PYTHONPATH": f"{tmp_path}/src:/abs:{tmp_path}", "LD_LIBRARY_PATH": f"{tmp_path}/lib", "HOME": "x",
        }  # fmt: skip


@pytest.mark.process
class TestAStartReadAsData:
    """Isolated, nothing of the environment runs, and its path is the same."""

    @pytest.mark.parametrize("options", [{}, {"system_site_packages": True}], ids=["alone", "with the base"])
    def test_the_path_is_that_of_a_real_start(
        self, tmp_path: Path, options: dict[str, bool], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Folders that .pth files name, once each and in order; PYTHONPATH; the base's folders."""
        env = tmp_path / "env"
        venv.create(env, with_pip=False, symlinks=True, **options)
        site = next((env / "lib").glob("python3*")) / "site-packages"
        for name in ("one", "two", "more"):
            (tmp_path / name).mkdir()
        (site / "b.pth").write_text(f"# said\n\n{tmp_path / 'one'}\n../../..\nnowhere\n{tmp_path / 'one'}\n")
        (site / "a.pth").write_bytes(f"\ufeff{tmp_path / 'two'}\r\n\0\n".encode())
        monkeypatch.setenv("PYTHONPATH", f"more:{tmp_path / 'two'}")
        told = []
        for isolated in (False, True):
            folder = tmp_path / f"scratch-{isolated}"
            folder.mkdir()
            told.append(examine_target(str(env), as_module=False, folder=folder, timeout=30, isolated=isolated).told)

        assert told[0] == told[1]
        assert str(tmp_path / "one") in told[1]["sys_path"]

    def test_nothing_of_the_environment_runs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """`import` lines, sitecustomize, usercustomize and modules of PYTHONPATH: named, not run."""
        env = tmp_path / "env"
        venv.create(env, with_pip=False, symlinks=True)
        site = next((env / "lib").glob("python3*")) / "site-packages"
        mark = tmp_path / "ran"
        code = f"open({str(mark)!r}, 'a').write('ran')\n"
        (site / "evil.pth").write_text(f"import os; {code}")
        (site / "sitecustomize.py").write_text(code)
        shadow = tmp_path / "shadow"
        shadow.mkdir()
        for name in ("json", "sysconfig", "platform", "site"):
            (shadow / f"{name}.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", str(shadow))
        folder = tmp_path / "scratch"
        folder.mkdir()
        target = examine_target(str(env), as_module=False, folder=folder, timeout=30, isolated=True)

        assert not mark.exists()
        assert [Path(file).name for file, _ in target.told["startup_code"]] == ["evil.pth", "sitecustomize.py"]
        assert target.told["sys_path"][0] == str(shadow)


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
        candidates(str(path), as_module=False)


@pytest.mark.process
@pytest.mark.parametrize("script", ["exit 0", "exit 3", "sleep 600", "kill -9 $$"])
def test_what_does_not_answer(tmp_path: Path, script: str) -> None:
    """A program that starts but does not describe itself cannot be examined."""
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
