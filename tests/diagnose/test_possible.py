"""A remedy is offered where what it needs can be had: told by its actions, not by conditions of its own."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.shelf import bundled, families

MAC = 'File "/Users/ann/proj/train.py", line 8, in <module>\n'
WINDOWS = 'File "C:\\Users\\ann\\proj\\train.py", line 8, in <module>\n'
XPU = "PyTorch version: 2.8.0+xpu\n"
ROCM = "PyTorch version: 2.6.0+rocm6.2.4\n"
JETSON = "Linux ubuntu 5.15.148-tegra aarch64\n"


def offered(log: str) -> list[str]:
    """Remedies of the first finding."""
    findings = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings
    return [remedy.id for remedy in findings[0].remedies]


@pytest.mark.parametrize("where", [MAC, XPU, ROCM, JETSON])
def test_a_cuda_build_of_torch_is_for_nvidia_gpus_of_its_index(where: str) -> None:
    message = "AssertionError: Torch not compiled with CUDA enabled"

    assert "gpu-build-of-torch" in offered(message)
    assert "gpu-build-of-torch" not in offered(where + message)


def test_kernels_are_not_installed_where_there_are_none() -> None:
    """flash-attn has builds for CUDA and ROCm."""
    message = (
        "ImportError: FlashAttention2 has been toggled on, but it cannot be used due to the following error: "
        "the package flash_attn seems to be not installed."
    )

    assert "install-it" in offered(message)
    assert "install-it" not in offered(MAC + message)
    assert "install-it" not in offered(XPU + message)


def test_a_compiler_of_cuda_is_not_for_rocm() -> None:
    message = "OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root."

    assert "name-the-toolkit" in offered(message)
    assert not {"name-the-toolkit", "ready-wheel", "toolkit-on-windows"} & set(offered(MAC + message))
