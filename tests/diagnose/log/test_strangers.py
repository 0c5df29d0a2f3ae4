"""Programs that load CUDA by themselves, and packages that are no part of the attention stack."""

from __future__ import annotations

import functools

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.diagnose.log.strangers import is_elsewhere
from attn_doctor.diagnose.log.unit import UnitKind
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Finding, Severity
from attn_doctor.recipes import shelf

STRANGERS = {
    "ONNX Runtime": "[E:onnxruntime:Default] [ONNXRuntimeError] : 1 : FAIL : Failed to load library "
    "libonnxruntime_providers_openvino.so with error: libopenvino.so.2410: cannot open shared object file",
    "ffmpeg": "[AVHWDeviceContext @ 0x5614] cu->cuInit(0) failed -> CUDA_ERROR_NO_DEVICE: no CUDA-capable device",
    "Numba: PTX": "numba.cuda.cudadrv.driver.LinkerError: [222] Call to cuLinkAddData results in "
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
}
JAX = (
    "WARNING:jax._src.xla_bridge:791: An NVIDIA GPU may be present, but a CUDA-enabled jaxlib is not installed. "
    "Falling back to cpu."
)
CUPY = (
    'Traceback (most recent call last):\n  File "/e/site-packages/cupy/__init__.py", line 16, in <module>\n'
    "    from cupy import _core\n"
    "ImportError: libcublas.so.11: cannot open shared object file: No such file or directory"
)
#: They have recipes of their own, and get none of torch's.
OF_LLAMA_CPP = {
    "its start": "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected",
    "its build": "CMake Error at ggml/src/ggml-cuda/CMakeLists.txt:25 (enable_language):\n"
    "  No CMAKE_CUDA_COMPILER could be found.",
}
ELSEWHERE = {
    "insightface": "error: Microsoft Visual C++ 14.0 or greater is required.\n"
    "  ERROR: Failed building wheel for insightface",
    "dgl": "ImportError: /lib/x86_64-linux-gnu/libm.so.6: version `GLIBC_2.29' not found (required by "
    "/e/lib/python3.8/site-packages/dgl/libdgl.so)",
    "torch-sparse": "OSError: /e/lib/python3.9/site-packages/torch_sparse/_convert_cuda.so: undefined symbol: "
    "_ZNK3c107SymBool10guard_boolEPKcl",
}


@functools.cache
def _found(text: str) -> tuple[Finding, ...]:
    return explain_text(text, (*shelf.bundled(), *shelf.families()), FactSet(), pasted=False).diagnosis.findings


@pytest.mark.parametrize("text", STRANGERS.values(), ids=STRANGERS)
def test_a_program_with_its_own_way_to_the_gpu_gets_nothing_of_ours(text: str) -> None:
    assert {one.library for one in _found(text)} <= {"topics", "elsewhere"}


def test_cupy_gets_its_own_alone() -> None:
    assert [(one.id, one.severity) for one in _found(CUPY)] == [("cupy-for-another-cuda", Severity.INFO)]


def test_jax_gets_its_own_alone() -> None:
    assert [(one.id, one.severity) for one in _found(JAX)] == [("jax-is-given-no-gpu", Severity.INFO)]


@pytest.mark.parametrize("text", OF_LLAMA_CPP.values(), ids=OF_LLAMA_CPP)
def test_llama_cpp_gets_its_own_alone(text: str) -> None:
    assert {one.library for one in _found(text)} == {"llama_cpp"}


def test_what_the_driver_says_to_llama_cpp_is_about_the_driver() -> None:
    text = (
        "CUDA error: the provided PTX was compiled with an unsupported toolchain.\n"
        "  current device: 0, in function ggml_cuda_compute_forward at ggml-cuda.cu:2415"
    )
    assert [one.id for one in _found(text)] == ["driver-too-old-for-ptx"]


def test_what_the_driver_says_to_jax_is_about_the_driver() -> None:
    """A module of the kernel that did not survive a suspend fails every program."""
    text = (
        "2023-10-04 12:33:47: E external/xla/xla/cuda_driver.cc:268] failed call to cuInit: CUDA_ERROR_UNKNOWN\n"
        "No GPU/TPU found, falling back to CPU. (Set TF_CPP_MIN_LOG_LEVEL=0 and rerun for more info.)"
    )
    assert _found(text)[0].id == "cuda-unknown-error"


def test_what_numba_says_of_numpy_is_about_numpy() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/e/site-packages/numba/__init__.py", line 45, in _check\n'
        "    raise ImportError(msg)\nImportError: Numba needs NumPy 2.0 or less. Got NumPy 2.1."
    )
    assert [one.id for one in _found(text)] == ["numpy-1-against-2"]


def test_the_name_of_a_wheel_is_no_program() -> None:
    text = "ERROR: onnxruntime_gpu-1.24.0-cp312-cp312-linux_aarch64.whl is not a supported wheel on this platform."
    assert [one.id for one in _found(text)] == ["no-wheel-for-this-environment"]


@pytest.mark.parametrize("text", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_package_outside_the_stack_gets_a_note(text: str) -> None:
    found = _found(text)

    assert found
    assert {one.severity for one in found} == {Severity.INFO}


def test_the_same_words_of_the_stack_are_an_error() -> None:
    text = "ImportError: libcublas.so.11: cannot open shared object file: No such file or directory"
    symbol = ELSEWHERE["torch-sparse"].replace("torch_sparse/_convert_cuda", "flash_attn_2_cuda")

    assert [one.severity for one in (*_found(text)[:1], *_found(symbol)[:1])] == [Severity.ERROR, Severity.ERROR]


def test_only_what_is_about_one_package_can_be_elsewhere() -> None:
    assert is_elsewhere("build", "lxml", UnitKind.MESSAGE)
    assert is_elsewhere("triton", "lxml", UnitKind.COMPILER)
    assert not is_elsewhere("triton", "lxml", UnitKind.TRACEBACK)
    assert not is_elsewhere("attention", "lxml", UnitKind.MESSAGE)
    assert not is_elsewhere("build", None, UnitKind.MESSAGE)
    for ours in ("transformer-engine-torch", "spas-sage-attn", "unsloth", "bitsandbytes", "auto-gptq"):
        assert not is_elsewhere("extension", ours, UnitKind.MESSAGE)


FOREIGN = {
    "a renderer's compiler": (
        "Compiling CUDA kernel ...\n"
        'nvcc -arch=sm_75 --cubin kernel.cu -D__KERNEL_CUDA_VERSION__=90 -o "cycles_kernel_sm75.cubin"\n'
        "nvcc fatal   : Value 'sm_75' is not defined for option 'gpu-architecture'"
    ),
    "a compiler": "/usr/bin/ld: cannot find -lcudart\ncollect2: error: ld returned 1 exit status\n"
    "make: *** [Makefile:42: matmul] Error 1",
    "a Makefile": "nvcc -DGPU -c ./src/convolutional_kernels.cu -o obj/convolutional_kernels.o\n"
    "/bin/sh: 1: nvcc: not found\nmake: *** [obj/convolutional_kernels.o] Error 127",
    "CMake": "No CMAKE_CUDA_COMPILER could be found.\n-- Configuring incomplete, errors occurred!\n"
    "/home/u/kokkos/CMakeLists.txt:12 (enable_language)",
    "a driver": "openmm.OpenMMException: Error loading CUDA module: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)\n"
    "simtk finished",
}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_words_of_compilers_and_drivers_are_a_note_where_nothing_of_the_stack_stands_beside_them(text: str) -> None:
    """Any program gets them; beside torch, or alone, they are an error."""
    assert {one.severity for one in _found(text)} == {Severity.INFO}
    assert Severity.ERROR in {one.severity for one in _found(f"{text}\nwhile building a torch extension")}


@pytest.mark.parametrize(
    "line",
    ["hi all,", "GPU: NVIDIA A100", "OS: Ubuntu 22.04", "[INFO] loading it", "Error executing job with overrides: []"],
)
@pytest.mark.parametrize(
    "message",
    [
        "RuntimeError: No available kernel. Aborting execution.",
        "nvcc fatal   : Unsupported gpu architecture 'compute_120'",
    ],
)
def test_a_line_of_no_program_makes_no_stranger(line: str, message: str) -> None:
    """What somebody writes above an error, or a record before it, is as any program has it."""
    for text in (message, f"{line}\n{message}", f"{line}\n{line}\n{message}"):
        assert Severity.ERROR in {one.severity for one in _found(text)}


def test_many_records_of_nothing_known_make_a_stranger() -> None:
    """A few lines that go on say nothing; a log of them would name the stack."""
    log = "".join(f"INFO serving page {letter}\n" for letter in "abcdefgh")
    assert {one.severity for one in _found(f"{log}nvcc fatal   : Unsupported gpu architecture 'compute_120'")} == {
        Severity.INFO
    }


def test_what_is_installed_below_a_message_is_none_of_its_words() -> None:
    said = "AttributeError: module 'faster_whisper' has no attribute 'BatchedInferencePipeline'\n"
    log = 'Traceback (most recent call last):\n  File "/content/diarize.py", line 124, in <module>\n    run()\n' + said
    for typed in ("!pip install ctranslate2==4.4.0", "$ python3 -m pip install -U ctranslate2"):
        found = explain_text(log + typed, (*shelf.bundled(), *shelf.families()), FactSet()).diagnosis.findings
        assert found[0].id == "package-lacks-a-name", typed


def test_what_setuptools_left_out_is_missing_for_whoever_imports_it() -> None:
    log = (
        'Traceback (most recent call last):\n  File "/e/site-packages/ctranslate2/__init__.py", line 8, in <module>\n'
        "    import pkg_resources\nModuleNotFoundError: No module named 'pkg_resources'\n"
    )
    found = explain_text(log, (*shelf.bundled(), *shelf.families()), FactSet()).diagnosis.findings
    assert found[0].id == "build-dep-missing"
