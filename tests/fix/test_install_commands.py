"""The command that a person types for an installation."""

from __future__ import annotations

import pytest

from attn_doctor.fix.packages.install_commands import install_command
from attn_doctor.model.facts import Fact, FactName, FactSet, Known
from attn_doctor.model.install_request import InstallRequest
from attn_doctor.recipes.data.torch_releases import build_for


def _facts(**told: str) -> FactSet:
    names = {"python_executable": "python.executable", "torch": "package.torch.version"}
    known = {names.get(name, name): value for name, value in told.items()}
    return FactSet(Fact(name=FactName.parse(name), state=Known(value), how="told") for name, value in known.items())


@pytest.mark.parametrize(
    ("torch", "asked", "index"),
    [
        ("2.13.0+cpu", "requirement.llamafactory.torchvision.specifier", "whl/cpu"),
        ("2.9.0+cu126", "requirement.llamafactory.torchaudio.specifier", "whl/cu126"),
        ("2.13.0", "requirement.llamafactory.torchvision.specifier", ""),
        ("2.13.0+cpu", "requirement.llamafactory.datasets.specifier", ""),
    ],
)
def test_a_companion_that_is_missing_comes_from_torchs_own_index(torch: str, asked: str, index: str) -> None:
    """The default index has one build of torchvision, which does not load beside a torch from another index."""
    facts = _facts(python_executable="/env/bin/python", torch=torch, **{asked: ">=0.19"})

    command = install_command(InstallRequest(requirements=("llamafactory==0.9.5",)), facts)

    assert ("--extra-index-url" in command, command.endswith(index)) == (bool(index), True)


@pytest.mark.parametrize(
    ("torch", "gpu", "release", "cuda"),
    [
        ("1.12.1+cu102", "8.0", "1.12.1", "11.6"),
        ("1.12.1+cu102", "9.0", "2.0.1", "11.8"),
        ("2.6.0+cu124", "12.0", "2.7.1", "12.8"),
        ("2.13.0", "7.0", "2.13.0", "12.6"),
    ],
)
def test_the_nearest_release_with_code_for_a_gpu(torch: str, gpu: str, release: str, cuda: str) -> None:
    """The packages around torch were made for its neighbours, not for the newest."""
    found = build_for(torch=torch, driver=None, gpus=[gpu])

    assert (found.torch, found.cuda) == (release, cuda)


def test_no_command_that_no_installer_can_follow() -> None:
    """A package that pins one torch is not installed beside another."""
    told = {"package.vllm.version": "0.8.5.post1", "requirement.vllm.torch.specifier": "==2.6.0"}
    request = InstallRequest(requirements=("vllm==0.8.5.post1",))

    assert install_command(request, _facts(torch="2.7.1", **told)) == ""
    assert "torch==2.6.0" in install_command(request, _facts(torch="2.6.0", **told))


@pytest.mark.parametrize(
    ("python", "moved"),
    [("python", "torch==2.7.1 torchvision torchaudio"), ("/env/bin/python", "torch==2.7.1 torchvision")],
    ids=["a log", "an environment"],
)
def test_the_companions_of_a_torch_of_a_log_are_not_known_and_move_with_it(python: str, moved: str) -> None:
    """An examined environment says which of them it has."""
    facts = _facts(python_executable=python, torch="2.6.0+cu124", **{"package.torchvision.version": "0.21.0"})
    request = InstallRequest(requirements=("torch==2.7.1",), reinstall=True, torch_backend="cu128")

    assert f"--force-reinstall {moved} --index-url" in install_command(request, facts)


@pytest.mark.parametrize(("asked", "pinned"), [("jax<0.4.24", False), ("transformers<5", True)])
def test_what_knows_no_torch_asks_for_none(asked: str, pinned: bool) -> None:
    """Where a log does not tell of a torch, there may be none, and the command that pins it would fail."""
    command = install_command(InstallRequest(requirements=(asked,)), FactSet())

    assert ("torch==" in command) == pinned
