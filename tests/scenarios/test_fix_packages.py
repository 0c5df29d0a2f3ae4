"""`attn-doctor fix` where it changes packages or the environment, as a person uses it, with real installers and
real compiled modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Doctor, Environment, clean_environment, make_environment
from tests.fix import wheel_house
from tests.scenarios.test_fix import ROTARY, _offline, _uv, _wheel, seen

MISSING = "flash-attn-extension-missing"

pytestmark = pytest.mark.skipif(not wheel_house.can_compile(), reason="no compiler, or no torch to compile against")


@pytest.fixture(params=["pip", "uv"])
def installer(request: pytest.FixtureRequest) -> str:
    """Both of them."""
    if request.param == "uv" and not _uv():
        pytest.skip("no uv here")
    return str(request.param)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """flash-attn as it is published: a wheel that fits, one that does not, and the source."""
    folder = tmp_path_factory.mktemp("house")
    wheel_house.flash_attn(folder)
    (folder / "other").mkdir()
    wheel_house.flash_attn(folder / "other", for_this_torch=False)
    wheel_house.sdist(folder, version="2.8.3.post2")
    return folder


@pytest.fixture
def patient(tmp_path: Path) -> Environment:
    """torch, and a flash-attn that came without its compiled module."""
    env = make_environment(tmp_path / "environment", torch=True)
    wheel = wheel_house.wheel(
        tmp_path, "flash_attn-2.8.2-py3-none-any.whl", ("flash-attn", "2.8.2"),
        {"flash_attn/__init__.py": b"import flash_attn_2_cuda\n"}, "py3-none-any",
    )  # fmt: skip
    line = [env.python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel]
    subprocess.run([*map(str, line)], check=True, timeout=120, env=clean_environment())
    return env


def fix(doctor: Doctor, patient: Environment, *arguments: object) -> tuple[int, str, str]:
    """With uv on PATH, and no network."""
    path = f"{Path(str(_uv())).parent}:{os.environ['PATH']}" if _uv() else os.environ["PATH"]
    kept = {key: value for key, value in _offline(Path("/nonexistent")).items() if key.startswith(("PIP_NO", "HTTP"))}
    run = doctor(
        "fix", "--python", patient.python, "--unsafe-fixes", "--only", MISSING, *arguments,
        env={**kept, "PATH": path}, limit=300,
    )  # fmt: skip
    return run.status, run.stdout, run.stderr


def test_a_named_wheel_is_installed_and_taken_out(
    doctor: Doctor, patient: Environment, house: Path, installer: str
) -> None:
    """It imports afterwards, in the very environment; undone, every byte is as it was."""
    before = seen(patient.folder)
    (wheel,) = house.glob("*.whl")
    status, said, told = fix(doctor, patient, "--quick", "--yes", "--wheel", wheel, "--installer", installer)

    assert (status, told) == (0, ""), said
    assert f"flash-attn 2.8.2 -> 2.8.3   {wheel.name}" in said
    assert "is no published wheel for this node" in said  # this torch is a CPU build
    subprocess.run([str(patient.python), "-c", "import torch, flash_attn"], check=True, timeout=120)
    undone = doctor("undo", "--python", patient.python)
    assert (undone.status, seen(patient.folder)) == (0, before)


def test_a_wheel_for_another_torch_is_refused(
    doctor: Doctor, patient: Environment, house: Path, installer: str
) -> None:
    """Its module wants what this torch has not: nothing is changed, whatever its name says."""
    before = seen(patient.folder)
    (wheel,) = (house / "other").glob("*.whl")
    status, said, _ = fix(doctor, patient, "--yes", "--quick", "--wheel", wheel, "--installer", installer)

    assert (status, seen(patient.folder)) == (1, before)
    assert "flash-attn-built-for-other-torch" in said


def test_a_wheel_that_is_another_one_by_now(doctor: Doctor, patient: Environment, house: Path, tmp_path: Path) -> None:
    """A reviewed plan is for the file that was reviewed."""
    (wheel,) = house.glob("*.whl")
    mine = tmp_path / wheel.name
    mine.write_bytes(wheel.read_bytes())
    plan = tmp_path / "plan.json"
    fix(doctor, patient, "--quick", "--wheel", mine, "--save-plan", plan)
    (other,) = (house / "other").glob("*.whl")
    mine.write_bytes(other.read_bytes())
    before = seen(patient.folder)
    status, _, told = fix(doctor, patient, "--quick", "--yes", "--plan", plan)

    assert (status, seen(patient.folder)) == (4, before)
    assert "not the file that the plan was shown for" in told


@pytest.mark.parametrize(
    ("assumed", "words"),
    [
        (("torch.version=2.8.0+cu128", "torch.cuda=12.8"), "/v2.8.3.post1/flash_attn-2.8.3.post1%2Bcu12torch2.8"),
        (("torch.version=2.11.0+cu130", "torch.cuda=13.0"), "for torch 2.4 to 2.8, not 2.11"),
    ],
)
def test_the_published_one_is_named(doctor: Doctor, patient: Environment, assumed: tuple[str, ...], words: str) -> None:
    """Its address where there is one, else why there is none; and what else works, in order."""
    _, said, _ = fix(doctor, patient, "--quick", "--dry-run", *(f"--assume={one}" for one in assumed))
    flat = " ".join(said.split())

    assert words in flat
    # Where there is an nvcc to build with, that is planned; else what a person can do is listed in order.
    assert "builds flash-attn==" in flat or flat.index("published for this Python") < flat.index("kernels package")


def test_built_where_none_is_published(doctor: Doctor, patient: Environment, house: Path, installer: str) -> None:
    """From source, with the torch that is there; what came of it is looked at before it is installed."""
    before = seen(patient.folder)
    assumed = ("torch.version=2.13.0", "torch.cuda=12.8", "cuda.nvcc=12.8")
    status, said, told = fix(
        doctor, patient, "--quick", "--yes", "--installer", installer, "--no-index", "--find-links", house,
        *(f"--assume={one}" for one in assumed),
    )  # fmt: skip

    assert (status, told) == (0, ""), said
    assert "MAX_JOBS=" in said
    subprocess.run([str(patient.python), "-c", "import torch, flash_attn"], check=True, timeout=120)
    undone = doctor("undo", "--python", patient.python)
    assert (undone.status, seen(patient.folder)) == (0, before)


def test_a_build_that_fails(doctor: Doctor, patient: Environment, tmp_path: Path, installer: str) -> None:
    """Its last words, and nothing was changed."""
    source = wheel_house.sdist(tmp_path, version="2.8.3.post2")
    source.write_bytes(source.read_bytes()[:200])
    before = seen(patient.folder)
    assumed = ("torch.version=2.13.0", "torch.cuda=12.8", "cuda.nvcc=12.8")
    status, _, told = fix(
        doctor, patient, "--quick", "--yes", "--installer", installer, "--no-index", "--find-links", tmp_path,
        *(f"--assume={one}" for one in assumed),
    )  # fmt: skip

    assert (status, seen(patient.folder)) == (4, before)
    assert f"{installer} ended with status" in told


@pytest.mark.parametrize("name", ["nothing.whl", "flash_attn-2.8.3-cp27-cp27m-win32.whl"])
def test_what_is_no_wheel_is_told_at_once(doctor: Doctor, patient: Environment, tmp_path: Path, name: str) -> None:
    """Wrong usage, before anything is examined."""
    (tmp_path / name).write_bytes(b"")
    status, said, told = fix(doctor, patient, "--dry-run", "--wheel", tmp_path / name)

    assert (status, said) == (2, "")
    assert name in told


class TestVariables:
    """`set-environment`, through the recipe that asks for it."""

    FLOAT_MASK = "sdpa-cudnn-float-mask"
    CUDA = ("--quick", "--gpu", "h100", "--assume=torch.version=2.13.0", "--assume=torch.cuda=13.0")

    def test_set_proven_seen_and_undone(self, doctor: Doctor, environment: object) -> None:
        """`check` in the activated environment sees it, without activation it does not, and the plan says so."""
        patient = environment()  # type: ignore[operator]
        before = seen(patient.folder)
        arguments = ("--only", self.FLOAT_MASK, *self.CUDA)
        mended = doctor("fix", "--python", patient.python, "--yes", "--unsafe-fixes", *arguments)

        assert (mended.status, mended.stderr) == (0, ""), mended.stdout
        assert "Fixed, confirmed by a new check: sdpa-cudnn-float-mask" in mended.stdout
        assert "only activating the environment sets it" in mended.stdout
        assert "sdpa-cudnn-float-mask" in doctor("check", "--python", patient.python, *arguments).stdout
        line = f". {patient.folder}/bin/activate; exec {sys.executable} -m attn_doctor check {' '.join(arguments)}"
        checked = subprocess.run(
            ["sh", "-c", line], capture_output=True, text=True, env=clean_environment(), timeout=120, check=True
        )
        assert "nothing wrong found" in " ".join(checked.stdout.split()).lower()
        again = doctor("fix", "--python", patient.python, "--yes", "--unsafe-fixes", *arguments)
        assert "activate the environment anew" in " ".join(again.stdout.split())
        undone = doctor("undo", "--python", patient.python)
        assert (undone.status, seen(patient.folder)) == (0, before)


ANEW = """
format = 1
id = "damaged"
title = "x-transformers is damaged"
severity = "error"
checked = 2026-11-21
status = "stable"
since = "0.1.0"
what = "what"
why = "why"
[[reference]]
kind = "web"
url = "https://example.org/"
[[when]]
fact = "package.x-transformers.version"
present = true
[[remedy]]
id = "anew"
title = "Install it again"
safety = "safe"
[[remedy.actions]]
kind = "install-packages"
requirements = ["x-transformers==1.30.1"]
no_deps = true
force_reinstall = true
[[case]]
facts = { "package.x-transformers.version" = "1.30.1" }
expect = "finds"
[[case]]
expect = "clears"
"""


def test_one_anew_is_not_all_anew(doctor: Doctor, environment: object, tmp_path: Path, installer: str) -> None:
    """force_reinstall is about the named release alone: torch, which it needs, stays where it is."""
    patient = environment()  # type: ignore[operator]
    house = tmp_path / "house"
    house.mkdir()
    _wheel(house, "x_transformers", "1.30.1", {"x_transformers/__init__.py": "a = 1\n"}, "torch>=2")
    _wheel(house, "torch", "2.12.0", {"torch/version.py": "__version__ = '2.12.0'\ncuda = None\n"})
    patient.pip()
    line = [patient.python, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", house]
    subprocess.run([*map(str, line), "x-transformers==1.30.1"], check=True, timeout=120, env=clean_environment())
    recipe = tmp_path / "recipes/mine/damaged/recipe.toml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(ANEW)
    path = f"{Path(str(_uv())).parent}:{os.environ['PATH']}" if _uv() else os.environ["PATH"]
    run = doctor(
        "fix", "--quick", "--python", patient.python, "--recipes", tmp_path / "recipes", "--only", "damaged",
        "--dry-run", "--installer", installer, "--no-index", "--find-links", house, env={"PATH": path},
    )  # fmt: skip

    assert "x-transformers 1.30.1 -> 1.30.1" in run.stdout, run.stdout + run.stderr
    assert "torch 2.12.0" not in run.stdout


@pytest.mark.registry
def test_a_pip_from_before_reports(doctor: Doctor, environment: object, tmp_path: Path) -> None:
    """pip 21.3.1 in the patient: cured and undone all the same."""
    patient = environment()  # type: ignore[operator]
    if sys.version_info >= (3, 12):
        pytest.skip("pip 21.3 does not run on this Python")
    patient.pip()
    line = [str(patient.python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*line, "pip==21.3.1"], check=True, timeout=300)
    subprocess.run([*line, "--no-deps", "x-transformers==1.30.1"], check=True, timeout=300, env=clean_environment())
    before = seen(patient.folder)
    mended = doctor(
        "fix", "--quick", "--python", patient.python, "--yes", "--unsafe-fixes", "--only", ROTARY, "--installer", "pip",
        limit=300,
    )  # fmt: skip
    assert (mended.status, mended.stderr) == (0, ""), mended.stdout
    assert "1.30.1 -> 1.30.2" in mended.stdout
    undone = doctor("undo", "--python", patient.python)
    assert (undone.status, seen(patient.folder)) == (0, before)
