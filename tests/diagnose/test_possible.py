"""A remedy is offered where what it needs can be had: told by its actions, not by conditions of its own."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.assume import assume
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


OF_UNSLOTH = 'File "/e/lib/python3.11/site-packages/unsloth_zoo/patching.py", line 8, in forward\n'
MIXED = "RuntimeError: expected mat1 and mat2 to have the same dtype, but got: float != c10::Half"
SAGE = (
    'File "/e/site-packages/sageattention/triton/attn_qk_int8_per_block.py", line 88, in forward\n'
    "RuntimeError: PassManager::run failed\n"
)
HIP = "UserWarning: 1Torch was not compiled with flash attention. (Triggered at x/transformers/hip/sdp_utils.cpp)"
TRITON = "ModuleNotFoundError: No module named 'triton'\n"

NO_IMAGE = (
    "NVIDIA GeForce RTX 5090\nRuntimeError: CUDA error: no kernel image is available for execution on the device\n"
)


@pytest.mark.parametrize(
    ("torch", "cause"), [("2.5.1+cu124", "torch-lacks-gpu-arch"), ("2.7.0+cu128", "extension-lacks-gpu-arch")]
)
def test_a_published_torch_tells_its_code(torch: str, cause: str) -> None:
    """The wheels of 2.7.0+cu128 have code for this GPU, so that it is another package that has none."""
    log = f"pytorch version: {torch}\n{NO_IMAGE}"

    assert explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0].id == cause


FIRST = [
    (OF_UNSLOTH + MIXED, "update-the-packages"),
    (f'{OF_UNSLOTH}File "/home/ann/train.py", line 8, in forward\n{MIXED}', "autocast-in-float16"),
    ("$ llamafactory-cli train a.yaml\n" + MIXED, "one-precision-by-switch"),
    ("$ llamafactory-cli train a.yaml\nTypeError: BFloat16 is not supported on MPS", "fp16-on-mps"),
    (
        f"torch 2.0.1+cu117\n{NO_IMAGE}Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.",
        "torch-for-a-new-gpu",
    ),
    (MIXED, "autocast-in-float16"),
    (
        OF_UNSLOTH + "attention_mask\nRuntimeError: The size of tensor a (9) must match the size of tensor b (8)",
        "update-the-packages",
    ),
    ("ValueError: SiglipVisionModel does not support Flash Attention 2.0 yet.", "release-that-has-it"),
    (
        "Transformers 4.57.1\nValueError: SiglipVisionModel does not support Flash Attention 2.0 yet.",
        "attention-it-has",
    ),
    ("ValueError: BertModel does not support an attention implementation through torch.nn.functional", "eager-alone"),
    ("{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 2.6e-07, 'epoch': 0.02}", "check-12"),
    ("NVIDIA GeForce GTX 1070\n" + SAGE, "without-triton-before-volta"),
    ("NVIDIA GeForce RTX 4090\n" + SAGE, "another-triton"),
    (WINDOWS + "'sm_120' is not a recognized processor for this target (ignoring processor)", "newer-triton-windows"),
    ("'sm_120' is not a recognized processor for this target (ignoring processor)", "newer-torch"),
    (HIP, "check-1"),
    (HIP.replace("/hip/", "/cuda/"), "check-4"),
    (WINDOWS + "pytorch version: 2.8.0+cu128\n" + TRITON, "triton-windows-of-this-torch"),
    (WINDOWS + TRITON, "triton-on-windows"),
    (WINDOWS + "- **PyTorch Version:** 2.8.0+cu128\n" + TRITON, "triton-windows-of-this-torch"),
    (
        MAC + "ValueError: torch.cuda.is_available() should be True but is False. xformers' attention is only for GPU",
        "xformers-off",
    ),
    (
        "AMD Radeon RX 6800 XT [ZLUDA]\nRuntimeError: cuDNN Frontend error: No execution plans support the graph.",
        "no-cudnn-on-amd",
    ),
    ("RuntimeError: cuDNN Frontend error: No execution plans support the graph.", "without-cudnn-sdpa"),
    (
        "ValueError: FlexAttention is only supported on CUDA, CPU, HPU, or MPS devices. Found inputs on npu device.",
        "check-10",
    ),
    (MAC + "AssertionError: Torch not compiled with CUDA enabled", "mps-on-a-mac"),
    (XPU + "AssertionError: Torch not compiled with CUDA enabled", "xpu-of-intel"),
    (JETSON + "AssertionError: Torch not compiled with CUDA enabled", "torch-of-a-jetson"),
    (
        JETSON + "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "compile-on-a-jetson",
    ),
    ("FileNotFoundError: [Errno 2] No such file or directory: ':/opt/cuda-12.4/bin/nvcc'", "one-folder-in-cuda-home"),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/opt/a:/opt/b/bin/nvcc'", "one-folder-in-cuda-home"),
    ("FileNotFoundError: [Errno 2] No such file or directory: '/opt/a/bin/nvcc'", "name-the-toolkit"),
    ("headdim should be in [64, 96, 128]., using pytorch attention instead.", "nothing-to-do"),
    ("AssertionError: headdim should be in [64, 96, 128].", "without-sageattention"),
    ("A matching Triton is not available, some optimizations will not be enabled", "nothing-to-do"),
    (
        (
            "A matching Triton is not available, some optimizations will not be enabled\n"
            "Error caught was: No module named 'triton'"
        ),
        "nothing-to-do",
    ),
    ("device='cpu'\nRuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'", "float32-on-cpu"),
    ("RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'", "use-the-gpu"),
    ("ModuleNotFoundError: No module named 'flash_attn.ops.triton.rotary'", "flash-attn-with-the-module"),
    ("ModuleNotFoundError: No module named 'flash_attn.flash_attention'", "newer-code"),
    (
        (
            "RuntimeError: Failed to import transformers.models.x because of the following error: cannot import name "
            "'is_flash_attn_3_available' from 'transformers.utils' (/e/transformers/utils/__init__.py)"
        ),
        "restart-after-the-change",
    ),
    (
        (
            "$ uv sync\n  × Failed to build `flash-attn==2.8.3`\n  ├─▶ The build backend returned an error\n"
            "      ModuleNotFoundError: No module named 'torch'"
        ),
        "uv-without-isolation",
    ),
    (
        "      fatal   : Could not open input file /tmp/tmpxft_0000abcd_00000000-7_flash_fwd.cpp1.ii",
        "room-for-temporary-files",
    ),
    (
        "  #0 0x00007ff941fb mlir::x (H:\\C\\Lib\\site-packages\\triton\\_C\\libtriton.pyd+0x3e5d9e5)",
        "check-3",
    ),
    (
        "$ uv pip install flash-attn\n  × Failed to build `flash-attn==2.6.1`\nNo module named 'torch'",
        "without-isolation",
    ),
    (MAC + "causal_conv1d was requested, but nvcc was not found.", "not-on-a-mac"),
    (JETSON + "RuntimeError: FlashAttention is only supported on CUDA 11.7 and above.", "jetpack-of-that-cuda"),
    ("CUDA error: no kernel image is available for execution on the device", "ask-torch-first"),
    ("GPU: RTX 5090\nCUDA error: no kernel image is available for execution on the device", "torch-for-a-new-gpu"),
]


@pytest.mark.parametrize(("log", "first"), FIRST)
def test_the_first_fix_follows_what_the_log_tells(log: str, first: str) -> None:
    assert offered(log)[0] == first


@pytest.mark.parametrize(
    ("log", "first"),
    [
        (
            "xformers 0.0.28 requires torch==2.4.1, but you have torch 2.3.1 which is incompatible.",
            "xformers-of-this-torch",
        ),
        (
            (
                "xformers 0.0.22 requires torch==2.0.1, but you have torch 2.1.0 which is incompatible.\n"
                "vllm 0.2.0 requires torch==2.0.1, but you have torch 2.1.0 which is incompatible."
            ),
            "torch-that-all-of-them-pin",
        ),
        (MAC + "ERROR: No matching distribution found for torch==2.5.1+cu121", "on-a-mac"),
        (WINDOWS + "ERROR: No matching distribution found for torch==2.5.1+cu121", "index-of-that-build"),
        (
            WINDOWS + "ERROR: flash_attn-2.7-cp310-cp310-linux_x86_64.whl is not a supported wheel on this platform.",
            "wheel-for-windows",
        ),
        (
            MAC + "ERROR: flash_attn-2.7-cp310-cp310-linux_x86_64.whl is not a supported wheel on this platform.",
            "none-on-a-mac",
        ),
    ],
)
def test_what_an_installer_says(log: str, first: str) -> None:
    assert offered(log)[0] == first


UNDETERMINED = (
    "subprocess.CalledProcessError: Command '['ninja', '-v', '-j', '64']' returned non-zero exit status 1.\n"
    "      torch.__version__  = {torch}\n  ERROR: Failed building wheel for flash-attn\n"
    "/home/a/lib/python3.10/site-packages"
)
IMAGE = "=== NVIDIA Release 24.07, nvcr.io/nvidia/pytorch:24.07-py3\n"
OLD_DRIVER = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."


@pytest.mark.parametrize(
    ("log", "first"),
    [
        (UNDETERMINED.format(torch="2.7.1+cu126"), "wheel-of-flash-attn"),
        (UNDETERMINED.format(torch="2.13.0+cu130"), "see-the-error"),
        (OLD_DRIVER, "torch-for-a-cuda-11-driver"),
        (IMAGE + OLD_DRIVER, "driver-of-the-image"),
        ("PyTorch 2.1.0+cu121 with CUDA 1201 (you have 2.1.0+cpu)", "build-that-xformers-is-of"),
    ],
)
def test_a_build_and_an_image(log: str, first: str) -> None:
    assert offered(log)[0] == first


ABI = "undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
MOVED = "undefined symbol: _ZN3c104cuda9SetDeviceEi"
TAG = "cpython-310-x86_64-linux-gnu.so: "


@pytest.mark.parametrize(
    ("log", "first"),
    [
        (f"torch 2.3.1\nImportError: /e/site-packages/selective_scan_cuda.{TAG}{MOVED}", "wheel-of-mamba-ssm"),
        (f"ImportError: /e/site-packages/selective_scan_cuda.{TAG}{MOVED}", "built-anew"),
        (f"torch 2.5.1\nImportError: /e/site-packages/causal_conv1d_cuda.{TAG}{ABI}", "wheel-of-causal-conv1d"),
        (f"ImportError: /e/site-packages/transformer_engine_torch.{TAG}{ABI}", "transformer-engine-torch-anew"),
        (
            (
                "Processing /src/TransformerEngine\n  Getting requirements to build wheel did not run\n"
                "No module named 'torch'"
            ),
            "checkout-without-isolation",
        ),
    ],
)
def test_whose_compiled_file(log: str, first: str) -> None:
    assert offered(log)[0] == first


@pytest.mark.parametrize(
    ("log", "first"),
    [
        (
            WINDOWS
            + "The detected CUDA version (10.1) mismatches the version that was used to compile\nPyTorch (11.7).",
            "toolkit-on-windows",
        ),
        (WINDOWS + "ERROR: Failed building wheel for flash-attn", "ready-wheel-on-windows"),
        ("ERROR: Failed building wheel for natten", "wheel-of-natten"),
    ],
)
def test_builds_on_windows(log: str, first: str) -> None:
    assert offered(log)[0] == first


OWN_FILE = (
    '  File "/usr/lib/python3.10/site-packages/torch/__init__.py", line 81, in <module>\n'
    "ImportError: libcudart.so.10.0: cannot open shared object file: No such file or directory"
)


@pytest.mark.parametrize(
    ("log", "first"),
    [
        (OWN_FILE, "torch-with-its-libraries"),
        (JETSON + OWN_FILE, "torch-of-the-jetpack"),
        ("Platform: linux-aarch64\n" + OWN_FILE, "torch-of-the-jetpack"),  # CUDA 10 on arm64
        (f"Processing ./torch-1.10.0-cp36-cp36m-linux_aarch64.whl\n{OWN_FILE}", "torch-of-the-jetpack"),
        ("Platform: linux-aarch64\n" + OWN_FILE.replace("10.0", "12"), "torch-with-its-libraries"),
        (
            "Processing ./torch-2.9.0+cu130-cp312-cp312-manylinux_2_28_aarch64.whl\n" + OWN_FILE.replace("10.0", "12"),
            "torch-with-its-libraries",
        ),
        (
            "ERROR: torch-1.4.0-cp36-cp36m-linux_aarch64.whl is not a supported wheel on this platform.\n" + OWN_FILE,
            "torch-with-its-libraries",
        ),
    ],
)
def test_torchs_own_libraries(log: str, first: str) -> None:
    assert offered(log)[0] == first


def test_torch_of_the_jetsons_own_index_is_possible_there() -> None:
    none = "ERROR: Could not find a version that satisfies the requirement torch (from versions: none)"

    assert "jetson-index" in offered(JETSON + none)
    assert "jetson-index" not in offered(none)


def test_flash_attn_for_an_older_torch_is_the_newest_with_a_wheel_for_it() -> None:
    """Its newest release has none for torch 2.1, and would be compiled for hours."""
    log = (
        "- torch                     2.1.2\n- cuda 11.7\n"
        "`flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c104impl3cow11cow_deleterEPv`"
    )
    first = explain_text(log, (*bundled(), *families()), FactSet()).diagnosis.findings[0].remedies[0]

    assert "flash-attn==2.7.4 " in " ".join([*(c for a in first.actions for c in a.commands), ""])


NO_FLASH = "ModuleNotFoundError: No module named 'flash_attn'"


@pytest.mark.parametrize(
    ("torch", "python", "release"),
    [
        ("2.0.1", "3.8", "2.6.3"),
        ("1.13.1", "3.8", "2.5.9.post1"),
        ("1.13.1", "3.7", "2.5.9.post1"),
        ("2.1.2", "3.8", "2.7.0.post2"),
        ("2.0.1", "3.9", "2.6.3"),
        ("2.9.0", "3.14", "2.8.3.post2"),  # none is published: what is built takes this torch
    ],
)
def test_flash_attn_of_an_old_or_a_new_python(torch: str, python: str, release: str) -> None:
    facts = assume(FactSet(), [f"package.torch.version={torch}", f"python.version={python}"])
    first = explain_text(NO_FLASH, (*bundled(), *families()), facts).diagnosis.findings[0].remedies[0]
    installs = [command for action in first.actions for command in action.commands if " install " in command]

    assert [command.rpartition(" ")[2] for command in installs] == [f"flash-attn=={release}"]


def test_a_wheel_that_no_release_has_is_not_the_first_cure() -> None:
    facts = assume(FactSet(), ["package.torch.version=2.0.1", "python.version=3.12"])
    found = explain_text(NO_FLASH, (*bundled(), *families()), facts).diagnosis.findings[0]

    assert [one.id for one in found.remedies if "wheel" in one.id] == ["wheel-of-this-older-torch"]
    assert "wheel" not in found.remedies[0].id
