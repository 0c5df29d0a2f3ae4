"""What a log of an image or video program, of Windows and of a Mac is told to do first."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.shelf import bundled, families

PORTABLE = 'File "D:\\ComfyUI_windows_portable\\python_embeded\\Lib\\site-packages\\torch\\nn\\m.py", line 9, in f\n'
COMFY = 'File "/home/ann/ComfyUI/comfy/ldm/modules/attention.py", line 9, in attention_pytorch\n'
ZLUDA = "AMD Radeon RX 6600 [ZLUDA]\n"
REFUSED = "RuntimeError: CUDA error: operation not supported\n"
NO_SAGE = "ModuleNotFoundError: No module named 'sageattention'\n"
NOT_LOADED = 'Error loading "C:\\e\\Lib\\site-packages\\torch\\lib\\{}" or one of its dependencies.'

FIRST = [
    (PORTABLE + "ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler'", "triton-on-windows"),
    ("ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler'", "triton-that-torch-names"),
    ("AssertionError: Torch is not able to use GPU; add --skip-torch-cuda-test to it", "torch-of-the-web-interface"),
    ("RuntimeError: No CUDA GPUs are available", "give-it-a-gpu"),
    (PORTABLE + "ValueError: Unsupported CUDA architecture: sm75", "sageattention-1-before-ampere"),
    (PORTABLE + "ValueError: Unsupported CUDA architecture: sm120", "sageattention-for-this-torch"),
    ("TypeError: Trying to convert Float8_e5m2 to the MPS backend but it does not have it.", "file-without-fp8"),
    ("TypeError: Trying to convert BFloat16 to the MPS backend but it does not have it.", "fp16-on-mps"),
    ("TypeError: the MPS framework doesn't support float64. Please use float32", "float32-in-place-of-float64"),
    ("RuntimeError: Invalid buffer size: 122.15 GiB", "far-fewer-tokens"),
    ("RuntimeError: Invalid buffer size: 24.00 GB", "split-attention"),
    ("Unknown attention module: flash_attn", "attention-of-trellis"),
    ("ModuleNotFoundError: No module named 'triton.ops'", "bitsandbytes-without-triton-ops"),
    ("ImportError: cannot import name 'sageattn_qk_int8_pv_fp8_cuda' from 'sageattention'", "sageattention-2"),
    ("RuntimeError: Compiler: cl is not found.", "cl-for-torch-compile"),
    ("OSError: [WinError 1114] it did not start. " + NOT_LOADED.format("c10.dll"), "visual-cpp-runtime"),
    ("OSError: [WinError 126] 找不到指定的模块。 " + NOT_LOADED.format("fbgemm.dll"), "torch-after-fbgemm"),
    ("OSError: [WinError 127] no procedure. " + NOT_LOADED.format("shm.dll"), "torch-whole"),
    ("is not compatible with nunchaku 0.3.1. Please take one in ['v1.0.1']", "nunchaku-of-the-node"),
    ("is not compatible with nunchaku 1.0.2. Please take one in ['v0.3.2']", "newer-node"),
    ("ModuleNotFoundError: No module named 'nunchaku'", "wheel-of-nunchaku"),
    (NO_SAGE, "triton-release"),
    (PORTABLE + NO_SAGE, "wheels-for-windows"),
    ("ModuleNotFoundError: No module named 'xformers'", "without-xformers"),
    ("RuntimeError: xformers::efficient_attention_forward_cutlass() expected at most 8 argument(s)", "xformers-whole"),
    ("AttributeError: Cannot set attribute 'src' directly. Use '_x()'", "triton-older-or-xformers-newer"),
    ("RuntimeError: No such operator xformers::f - did you forget to build it?", "xformers-of-this-torch"),
    ("Flash Attention failed, using default SDPA: flash_attn() expected at most 5 arguments", "went-on-with-sdpa"),
    (
        ZLUDA + COMFY + "AttributeError: module 'torch.library' has no attribute 'custom_op'",
        "torch-with-the-name-for-amd",
    ),
    (COMFY + "AttributeError: module 'torch.library' has no attribute 'custom_op'", "torch-with-the-name"),
    (
        PORTABLE + "RuntimeError: sageattention is not new enough version, cannot apply the patch.",
        "wheel-of-sageattention-2-for-windows",
    ),
    ("RuntimeError: sageattention is not new enough version, cannot apply it.", "sageattention-2-from-source"),
    ("DLL load failed while importing custom_rasterizer_kernel: The specified procedure is not", "wheel-of-the-node"),
    (
        f"No such file or directory: 'C:\\Users\\a\\torchinductor_a\\triton\\{'f' * 92}.json'",
        "short-cache-folder",
    ),
    ("the `sageattention` package must be installed first.\n\tC:\\x\\python_embeded\\python.exe", "wheels-for-windows"),
    ("Assertion failed: this->shape.dataExtent == other.shape.dataExtent", "file-for-this-gpu"),
    ("WARNING[XFORMERS]: Need to compile C++ extensions to use all xFormers features.", "xformers-of-this-torch"),
    ("OSError: [WinError 4551] blocked. " + NOT_LOADED.format("c10.dll"), "smart-app-control"),
    (PORTABLE + "RuntimeError: \"mul_cuda\" not implemented for 'Float8_e5m2'", "file-or-type-of-the-program"),
    ("RuntimeError: Error building extension 'some_plugin'", "see-the-error-of-an-extension"),
    (
        "PermissionError: [WinError 5] Access is denied: 'C:\\site-packages\\~orch\\c.dll'",
        "close-and-install-again",
    ),
]


def first_of(log: str) -> tuple[str, str]:
    """The first finding and its first remedy; no remedy where it has none."""
    found = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0]
    return found.id, found.remedies[0].id if found.remedies else ""


@pytest.mark.parametrize(("log", "remedy"), FIRST)
def test_first_remedy(log: str, remedy: str) -> None:
    assert first_of(log)[1] == remedy


@pytest.mark.parametrize(
    ("log", "family"),
    [
        (COMFY + REFUSED, "cuda-operation-not-supported"),
        (ZLUDA + COMFY + REFUSED, "zluda-does-not-have-it"),
        (
            "NotImplementedError: The operator 'aten::im2col' is not currently implemented for the MPS device.",
            "mps-operation-missing",
        ),
    ],
)
def test_family(log: str, family: str) -> None:
    """A driver without cudaMallocAsync is no fault of the kernel in whose frame it shows."""
    assert first_of(log)[0] == family


def test_a_check_is_not_switched_off_in_place_of_what_it_found() -> None:
    """Without the check of a web interface the image is black; the setting that cures it stands in another sentence."""
    cause = "NansException: A tensor with all NaNs was produced in Unet."
    silence = "Use --disable-nan-check commandline argument to disable this check."

    assert "disable-nan-check" not in told_first(f"{cause} {silence}")
    assert "--no-half" in told_first(f"{cause} Try using the --no-half commandline argument to fix this. {silence}")


def told_first(log: str) -> str:
    """The title of the first remedy of the first finding."""
    return explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0].remedies[0].title


def test_a_part_of_torch_is_no_name_of_another_package() -> None:
    """bitsandbytes has a module of backends too, with one for MPS."""
    log = "AttributeError: module 'torch.backends' has no attribute 'mps'"

    found = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings

    assert "bitsandbytes" not in " ".join(one.title for one in found)
