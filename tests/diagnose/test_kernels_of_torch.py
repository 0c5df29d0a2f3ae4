"""What torch, its compiler and its attention layers refuse: this log, this cause, this first fix."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.recipes.shelf import bundled, families

VLLM = 'File "/e/lib/python3.12/site-packages/vllm/compilation/wrapper.py", line 9, in __init__\n'
COMFY = (
    'File "E:\\ComfyUI_windows_portable\\python_embeded\\Lib\\site-packages\\triton\\runtime\\jit.py", line 5, in run\n'
)
OLD_GPU = (
    "RuntimeError: Found Tesla P40 which is too old to be supported by the triton GPU compiler, "
    "which is used as the backend. Triton only supports devices of CUDA Capability >= 7.0"
)
OPSET = "UnsupportedOperatorError: Exporting the operator 'aten::scaled_dot_product_attention' to ONNX opset version"
MIXED_HEADERS = "SystemError: PY_SSIZE_T_CLEAN macro must be defined for '#' formats"

FIRST = [
    (OLD_GPU, "compile-gpu-too-old", "without-compilation"),
    (VLLM + OLD_GPU, "compile-gpu-too-old", "vllm-eager"),
    (f"{OPSET} 12 is not supported.", "onnx-without-sdpa", "higher-opset"),
    (f"{OPSET} 17 is not supported.", "onnx-without-sdpa", "newer-torch"),
    (MIXED_HEADERS, "triton-headers-of-other-python", "empty-the-cache"),
    (COMFY + MIXED_HEADERS, "triton-headers-of-other-python", "empty-the-cache-windows"),
    (
        "RuntimeError: The shape of the 2D attn_mask is torch.Size([5, 5]), but should be (32, 32).",
        "mha-shapes",
        "batch-first",
    ),
    (
        "RuntimeError: The shape of the 3D attn_mask is torch.Size([2, 5, 5]), but should be (8, 5, 5).",
        "mha-shapes",
        "mask-with-heads",
    ),
    (
        "RuntimeError: The shape of the 2D attn_mask is torch.Size([77, 77]), but should be (1, 1).",
        "open-clip-batch-first",
        "older-open-clip",
    ),
]


@pytest.mark.parametrize(("log", "cause", "first"), FIRST)
def test_the_cause_and_the_first_fix(log: str, cause: str, first: str) -> None:
    finding = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0]

    assert finding.id == cause
    assert finding.remedies[0].id == first


def test_a_notice_of_recompilations_hides_no_error() -> None:
    notice = "W0110 torch/_dynamo/convert_frame.py:1551] [2/8] torch._dynamo hit config.recompile_limit (8)\n"
    log = notice + "RuntimeError: cu_seqlens_q must have shape (batch_size + 1)"

    found = {finding.id for finding in explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings}

    assert found == {"compile-recompiles", "packed-lengths-refused"}


TRACE = "Traceback (most recent call last):\n"
SDPA = f'{TRACE}  File "/x/m.py", line 8, in f\n    x = F.scaled_dot_product_attention(q, k, v)\n'


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (f"{SDPA}RuntimeError: CUDA error: invalid configuration argument", "attention-grid-too-large"),
        ("RuntimeError: CUDA error: invalid configuration argument", "kernel-launch-refused"),
        ("ImportError: DLL load failed while importing cuda_utils: The module.", "triton-windows-helper-not-loaded"),
        ("PermissionError: [Errno 13] Permission denied: '/.triton'", "triton-cache-not-writable"),
    ],
)
def test_what_stands_around_a_launch(log: str, cause: str) -> None:
    assert explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0].id == cause
