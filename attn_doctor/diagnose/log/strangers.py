"""Tells what a log says of programs and packages that are none of the attention stack's.

Such programs load CUDA, cuDNN and the driver by themselves: their words are those of our messages, but no torch, no
package and no build of the attention stack is at fault, and a cure for these changes nothing for them.
"""

from __future__ import annotations

import re
from functools import lru_cache

from attn_doctor.diagnose.log.unit import Unit, UnitKind
from attn_doctor.probe.packages.known_packages import BY_NAME, PACKAGES
from attn_doctor.recipes.data.stack_packages import is_like_the_stack

_PYTHON = (
    r"tensorflow|keras|jax|jaxlib|flax|optax|haiku|mxnet|paddle|cv2|onnxruntime|tensorrt|cupy|numba|cudf|cuml|xgboost"
    r"|lightgbm|catboost|sklearn|pandas|polars|scipy|matplotlib|ctranslate2|llama_cpp|faiss|datasets|dask|distributed"
    r"|pyspark|gunicorn|uvicorn|django|flask|sqlalchemy|psycopg2|wandb|mlflow"
)
#: Words with which these programs sign their messages.
_SIGNED = re.compile(
    rf"^\s*(?:{_PYTHON})\.[\w.]*\w(?:Error|Exception|error)\b"
    r"|tensorflow/(?:core|compiler|stream_executor|tsl)/|external/(?:local_)?(?:xla|tsl)/|\bxla_bridge\b|\bjaxlib\b"
    r"|\bggml[_/-]\w|\bllama_(?:model|init|new|load|kv)\w*|source=gpu\.go|\bONNXRuntimeError\b|\bOnnxruntime\b"
    r"|onnxruntime[_:]|OpenCV\(\d|\[TRT\] \[|\bAVHW\w*Context\b|\bcu->cu[A-Z]|' Op has type "
    r"|interactive framework|\bh(?:264|evc)(?:_\w+)? @ 0x|\bCuPy\b|\bLibNVVM\b"
    r"|\[LightGBM\]|xgboost\.core|\bjava\.lang\.|\borg\.apache\.|cudadrv|numba\.cuda|\bcatboost\b|model_lifecycle\.cc|paddle[./]|\bctranslate2\b",
    re.MULTILINE,
)
_FRAME = re.compile(rf"(?:site|dist)-packages/(?:{_PYTHON})[/.]")
#: llama.cpp, JAX and TensorFlow ask the NVIDIA driver as torch does: what is wrong with it there is wrong for all.
_PASSED_ON = re.compile(
    r"\bggml[_/-]\w|\bllama_(?:model|init|new|load|kv)\w*|/llama\.cpp/|failed call to cuInit: CUDA_ERROR_UNKNOWN"
    r"|does not match DSO version"
)
#: So does Paddle with the software of an Ascend NPU.
_OF_CANN = re.compile(r"\blib(?:ascend\w{0,12}|atb|hccl|opapi)\.so")
_DRIVER, _PLATFORMS = "driver", "platforms"
#: The compiler's own words, to which MSBuild adds the name of its project; and what is said of the NumPy that is there.
_OF_NOBODY = re.compile(r"\s*nvcc fatal|[\w.: ]{0,40}Numba needs NumPy ")
#: What such recipes are about is one package: the one that is built or loaded.
_ABOUT_A_PACKAGE = frozenset({"build", "extension", "import"})
#: Missing headers are looked at beside Triton's launcher, which needs them most often.
_COMPILED = "triton"
#: Packages whose names other programs' logs have as well: NVIDIA's libraries, and a common word.
_EVERYBODYS = re.compile(r"nvidia-|kernels$")
#: In lower case; one of them stands in most logs of training and of models that are served or run.
_OF_THE_STACK = re.compile(
    "|".join(re.escape(one.name).replace(r"\-", "[-_ ]?") for one in PACKAGES if not _EVERYBODYS.match(one.name))
    + r"|attn|attention(?! ?[:!])|cuda initialization:|diffus|hugging|flash[-_]|flashi"
    r"|(?<!lib)(?<!micro)mamba(?!forge)|conv1d|\bapex|comfy|whisper|llama|(?<!p)lora"
    r"|llm|gptq|awq|megatron|unsloth|exllama|ggml|\btts|tts\b|gauss|spconv|detectron|mmcv|nvdiffrast|tiny-?cuda|cutlass"
    r"|flux|rwkv|inductor|\bgpt|gpt\b|rasteriz|webui|nunchaku|kohya|qwen|deepseek|gemma|mistral|\btrain|\bfused"
    r"|_kernel|'loss'"
    # What torch and its builds say of a GPU, a driver, a toolkit or a dtype names none of them.
    r"|runtimeerror: cuda|driver on your system|cuda_home|bfloat16|float16|\bbf16|\bfp16"
)
#: Libraries of recipes whose messages compilers, loaders, containers and drivers say to all programs alike.
_OF_ANY_PROGRAM = frozenset({"build", "driver", "environment", "extension", "import", "torch", "triton"})


#: What such logs have even where no package of the stack is named.
_NEAR_THE_STACK = re.compile(
    r"cuda|nvcc|\.cuh?\b|rocm|\bhip|torch|(?:site|dist)-packages|conda|traceback \(most recent"
    r"|nvidia|nvml|nccl|\bgpus?\b|text_generation|ollama|mpsndarray|metalperformance|\bmodels?\b|inference|checkpoint"
    r"|python|\bpip3?\b|slurm|\bjax|onnx|vulkan|num(?:py|ba)|librosa|tensorflow|paddle"
)
#: So many lines without any of it are of another program, whatever one of them reminds of.
_ENOUGH = 8


class Company:
    """Whether anything in a log is of the attention stack, or of the programs that compute with it."""

    def __init__(self) -> None:
        self._lines = 0
        self._ours = False
        self._near = False

    def see(self, text: str) -> None:
        """Reads one line."""
        if not self._ours and text.strip():
            self._lines += 1
            lower = text[:2000].lower()
            self._ours = _OF_THE_STACK.search(lower) is not None
            self._near = self._near or _NEAR_THE_STACK.search(lower) is not None

    @property
    def is_foreign(self) -> bool:
        """True where nothing is, among several lines; a message alone may be anybody's."""
        return self._lines > 1 and not self._ours

    @property
    def is_remote(self) -> bool:
        """True where many lines have nothing of CUDA, ROCm or Python's packages either."""
        return self._lines >= _ENOUGH and not self._ours and not self._near


def may_be_of_any_program(library: str) -> bool:
    """True for a recipe's library whose messages are said to programs of all kinds."""
    return library in _OF_ANY_PROGRAM


def is_of_a_stranger(unit: Unit) -> bool:
    """True for a message of a program that shares the GPU, and no code, with the attention stack."""
    return _is_signed(unit.frames[-1][0] if unit.frames else "", unit.message)


@lru_cache(256)  # ranks and steps say the same
def _is_signed(innermost: str, message: str) -> bool:
    if _OF_NOBODY.match(message):
        return False
    return _FRAME.search(innermost) is not None or _SIGNED.search(message) is not None


def is_about_a_stranger(library: str) -> bool:
    """True for a recipe's library that is such a program itself: its recipes are for just these messages."""
    return library in _PYTHON.split("|")


def is_of_its_driver(library: str, unit: Unit) -> bool:
    """True for a recipe about the driver or a platform, and a message in which a stranger passes its words on."""
    passed_on = {_DRIVER: _PASSED_ON, _PLATFORMS: _OF_CANN}.get(library)
    return passed_on is not None and passed_on.search(unit.message) is not None


def is_elsewhere(library: str, package: str | None, kind: UnitKind) -> bool:
    """True where a recipe of that library is about a package that is known, and no part of the attention stack."""
    return (
        (library in _ABOUT_A_PACKAGE or (library == _COMPILED and kind is UnitKind.COMPILER))
        and package is not None
        and package not in BY_NAME
        and not is_like_the_stack(package)
    )
