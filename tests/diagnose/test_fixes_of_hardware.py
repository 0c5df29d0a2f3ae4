"""What a log of quantized weights, of a GPU's driver and of GPUs by other makers is told to do first."""

from __future__ import annotations

import pytest

from tests.diagnose.test_fixes_of_image_programs import first_of

JETSON = "Linux ubuntu 5.15.148-tegra aarch64\n"
MAC = 'File "/Users/ann/proj/train.py", line 8, in <module>\n'
NO_CODE = "RuntimeError: HIP error: invalid device function"
UNKNOWN = "UserWarning: CUDA unknown error - this may be due to an incorrectly set up environment"
KERNEL = "Error {} at line 233 in file /src/csrc/ops.cu"

FIRST = [
    ("Arch Linux, RX 5700 XT\n" + NO_CODE, "as-gfx1030"),
    ("AMD Radeon RX 6700 XT\n" + NO_CODE, "as-gfx1030"),
    ("Radeon 780M\n" + NO_CODE, "as-gfx1100"),
    ("Radeon RX 9070 XT\n" + NO_CODE, "rocm-for-rdna4"),
    ("GPU: AMD Radeon RX 580\n" + NO_CODE, "last-rocm-for-old-gpu"),
    ("C:\\proj\\a.py\nRadeon RX 6600\n" + NO_CODE, "torch-for-this-gpu-on-windows"),
    (NO_CODE, "name-the-target"),
    (JETSON + KERNEL.format("named symbol not found"), "bitsandbytes-on-a-jetson"),
    (KERNEL.format("no kernel image is available for execution on the device"), "newest-bitsandbytes"),
    (JETSON + "ImportError: libcusparseLt.so.0: cannot open shared object file", "library-of-the-jetpack"),
    ("ImportError: libcusparseLt.so.0: cannot open shared object file", "torch-with-its-libraries"),
    ("ImportError: Loading a GPTQ quantized model requires optimum (`pip install optimum`)", "gptq"),
    ("ImportError: Loading an AWQ quantized model requires auto-awq library (`pip install autoawq`)", "awq"),
    ("ImportError: Using `bitsandbytes` 4-bit quantization requires accelerate", "bitsandbytes-and-accelerate"),
    (MAC + "ImportError: Using `bitsandbytes` 4-bit quantization requires accelerate", "bitsandbytes-on-a-mac"),
    (MAC + "RuntimeError: No GPU found. A GPU is needed for quantization.", "unquantized-on-a-mac"),
    ("RuntimeError: No HIP GPUs are available", "groups-of-amds-driver"),
    ("Ubuntu 22.04 under WSL2\nRuntimeError: No HIP GPUs are available", "rocm-under-wsl"),
    (UNKNOWN, "load-uvm"),
    ("WSL2\n" + UNKNOWN, "restart-wsl"),
    (
        "NVIDIA GB10 with CUDA capability sm_121 is not compatible with the current PyTorch installation.",
        "torch-for-spark-and-thor",
    ),
    ("5070 Ti\nAssertionError: Torch not compiled with CUDA enabled", "gpu-build-for-a-new-gpu"),
    ("AssertionError: Torch not compiled with CUDA enabled", "gpu-build-by-its-index"),
    ("AssertionError: Torch not compiled with XPU enabled", "xpu-build"),
    ("ImportError: DLL load failed while importing exllama_kernels: The specified module", "gptq-of-this-torch"),
    ("ValueError: Unknown quantization method: quark. Must be one of ['awq', 'fp8']", "newer-engine"),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate`", "memory-or-earlier-fault"),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_INVALID_VALUE when calling `cublasGemmEx`", "torchs-own-cublas"),
]  # fmt: skip


@pytest.mark.parametrize(("log", "remedy"), FIRST)
def test_first_remedy(log: str, remedy: str) -> None:
    assert first_of(log)[1] == remedy


@pytest.mark.parametrize(
    "line",
    [
        "step 5070 time 3.1 s, loss 2.07",
        "Loading checkpoint shards of the AWQ model: 100%",
        "using gfx1030 kernels",
        "Vega lite charts are written",
    ],
)
def test_ordinary_lines_stay_clean(line: str) -> None:
    with pytest.raises(IndexError):
        first_of(line)
