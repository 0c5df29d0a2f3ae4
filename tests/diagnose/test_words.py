"""Commands and settings as a person can copy them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from attn_doctor.diagnose.binding import bind
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.finding import finding_of
from attn_doctor.fix.packages.install_commands import install_command
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Value
from attn_doctor.model.install_request import InstallRequest
from attn_doctor.recipes.shelf import bundled


def commands(recipe: str, facts: dict[str, Value], config: str | None) -> list[str]:
    """All commands of the recipe's remedies."""
    (written,) = [one for one in bundled() if one.id == recipe]
    known = FactSet(Fact(name=FactName.parse(name), state=Known(value), how="a test") for name, value in facts.items())
    every = derive(known)
    finding = finding_of(written, every, bind(every, "config" if config else None, config))
    return [text for remedy in finding.remedies for action in remedy.actions for text in action.commands]


@pytest.mark.parametrize(
    ("file", "framework", "setting"),
    [
        ("ds.json", "deepspeed", '"fp16": {"enabled": false}    in ds.json:3'),
        ("ds", "deepspeed", '"fp16": {"enabled": false}    in ds:3'),
        ("train.yaml", "llamafactory", "fp16: false    # in train.yaml:3"),
    ],
)
def test_a_setting_as_its_file_spells_it(file: str, framework: str, setting: str) -> None:
    """DeepSpeed's precisions are sections in JSON, other configurations name a value."""
    own = f"config.{file}."
    facts: dict[str, Value] = {
        f"{own}framework": framework,
        f"{own}both_halves": "bf16 and fp16",
        f"{own}precision_place": f"{file}:3",
        "node.bf16_native": True,
    }

    assert setting in commands("precision-both-halves", facts, file)


def test_words_in_json_are_quoted() -> None:
    """A dtype in a model's config.json is a string."""
    own = "config.config.json."
    facts: dict[str, Value] = {
        f"{own}framework": "transformers", f"{own}precision_place": "config.json:4", f"{own}packs": False,
    }  # fmt: skip

    assert '"dtype": "bfloat16"    in config.json:4' in commands("config-fa2-without-half", facts, "config.json")


ANOTHER_TORCH: dict[str, Value] = {
    "driver.version": "535.104.05",
    "torch.version": "2.12.0",
    "package.torch.version": "2.12.0",
    "package.torchvision.version": "0.27.0",
    "python.executable": "/e/python",
    "gpu.0.compute_capability": "9.0",
}


def test_pip_is_told_where_another_torch_lies() -> None:
    """Without an index pip brings the same CUDA again, for which the driver is too old; torchvision follows torch."""
    (command,) = [one for one in commands("driver-too-old", ANOTHER_TORCH, None) if "install" in one]

    wanted = "torch==2.12.0 torchvision --index-url https://download.pytorch.org/whl/cu126"
    assert command == f"/e/python -m pip install --force-reinstall {wanted}"


def test_uv_is_told_which_build() -> None:
    """`--torch-backend auto` asks the machine at hand, which may have no GPU at all: then it is the CPU build again."""
    (command,) = [
        one for one in commands("driver-too-old", {**ANOTHER_TORCH, "python.has_pip": False}, None) if "install" in one
    ]

    wanted = "--reinstall-package torch --torch-backend cu126 torch==2.12.0 torchvision"
    assert command == f"uv pip install --python /e/python {wanted}"


def test_a_command_with_a_hole_is_none() -> None:
    """A log alone tells neither the driver nor the GPU, and so no build of torch."""
    assert [one for one in commands("driver-too-old", {}, None) if "VERSION" in one or "INDEX" in one] == []


@pytest.mark.process
def test_a_torch_that_nobody_knows_is_asked_by_the_shell() -> None:
    """Its pin is what it says of itself when the command runs."""
    request = InstallRequest(requirements=("einops",))
    command = install_command(request, FactSet())

    assert shlex.split(command)[:5] == ["python", "-m", "pip", "install", "einops"]
    pin = command.partition(" einops ")[2].replace("$(python ", f"$({sys.executable} ")
    told = subprocess.run(["sh", "-c", f"printf %s {pin}"], capture_output=True, text=True).stdout
    assert re.fullmatch(r"torch==[\d.]*", told), told


def test_a_list_in_a_request_is_each_of_its_parts() -> None:
    """What several packages lack is one command, with the torch that is there."""
    facts: dict[str, Value] = {
        "listed.requirement": 3,
        "python.executable": "/e/python",
        "package.torch.version": "2.13.0+cpu",
        "torch.version": "2.13.0+cpu",
        "package.trl.version": "1.9.2",
        "requirement.trl.accelerate.specifier": ">=1.4.0",
        "requirement.torch.sympy.specifier": ">=1.13.3",
    }

    assert commands("requirements-not-met", facts, None) == [
        "/e/python -m pip install trl==1.9.2 'sympy>=1.13.3' torch==2.13.0"
    ]


def test_what_goes_with_a_torch_that_has_to_be_another_build_comes_from_its_index() -> None:
    """CUDA 13 has no code for Volta: torch goes to cu126, and a torchvision of cu130 would not go with it. No xformers
    of these torches has code for Volta: it is done without."""
    facts: dict[str, Value] = {
        "torch.version": "2.11.0+cu130",
        "package.torch.version": "2.11.0",
        "torch.cuda": "13.0",
        "torch.arch_list": ("sm_75", "sm_80", "sm_90"),
        "python.executable": "/e/python",
        "package.xformers.version": "0.0.33.post2",
        "package.xformers.requires_torch": "==2.9.1",
        "package.torchvision.version": "0.24.1",
        "package.torchvision.requires_torch": "==2.9.1",
        "gpu.0.compute_capability": "7.0",
        "driver.version": "580.95.05",
    }

    (volta, *_) = commands("torchvision-torch-mismatch", facts, None)
    (without,) = commands("xformers-torch-mismatch", facts, None)
    (turing, _) = commands("xformers-torch-mismatch", {**facts, "gpu.0.compute_capability": "7.5"}, None)

    assert volta.endswith("torchvision==0.26.0 --index-url https://download.pytorch.org/whl/cu126")
    assert without.endswith("uninstall xformers")
    assert turing.endswith("xformers==0.0.35 --index-url https://download.pytorch.org/whl/cu130")
