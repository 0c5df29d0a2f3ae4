"""Tells what a log says of programs and packages that are none of the attention stack's.

Such programs load CUDA, cuDNN and the driver by themselves: their words are those of our messages, but no torch, no
package and no build of the attention stack is at fault, and a cure for these changes nothing for them.
"""

from __future__ import annotations

import re
from functools import lru_cache

from attn_doctor.diagnose.log.unit import Unit, UnitKind
from attn_doctor.probe.packages.known_packages import BY_NAME, PACKAGES
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.stack_packages import is_like_the_stack

_PYTHON = (
    r"tensorflow|keras|jax|jaxlib|flax|optax|haiku|mxnet|paddle|cv2|onnxruntime|tensorrt|cupy|numba|cudf|cuml|xgboost"
    r"|lightgbm|catboost|sklearn|pandas|polars|scipy|matplotlib|ctranslate2|llama_cpp|faiss|datasets|dask|distributed"
    r"|pyspark|gunicorn|uvicorn|django|flask|sqlalchemy|psycopg2|wandb|mlflow"
)
#: Words with which these programs sign their messages.
_SIGNED = when_used(
    rf"^\s*(?:{_PYTHON})\.[\w.]*\w(?:Error|Exception|error)\b"
    r"|tensorflow/(?:core|compiler|stream_executor|tsl)/|external/(?:local_)?(?:xla|tsl)/|\bxla_bridge\b|\bjaxlib\b"
    r"|\bggml[_/-]\w|\bllama_(?:model|init|new|load|kv)\w*|source=gpu\.go|\bONNXRuntimeError\b|\bOnnxruntime\b"
    r"|onnxruntime(?:_(?!\w{2,12}-\d)|:)|OpenCV\(\d|\[TRT\] \[|\bAVHW\w*Context\b|\bcu->cu[A-Z]|' Op has type "
    r"|interactive framework|\bh(?:264|evc)(?:_\w+)? @ 0x|\bCuPy\b|\bLibNVVM\b"
    r"|Non-zero status code returned while running \w+ node"
    r"|\[LightGBM\]|xgboost\.core|\bjava\.lang\.|\borg\.apache\.|cudadrv|numba\.cuda|\bcatboost\b|model_lifecycle\.cc|paddle[./]|\bctranslate2\b",
    re.MULTILINE,
)
_FRAME = when_used(rf"(?:site|dist)-packages/(?:{_PYTHON})[/.]")
#: llama.cpp, JAX and TensorFlow ask the NVIDIA driver as torch does: what is wrong with it there is wrong for all.
_PASSED_ON = when_used(
    r"\bggml[_/-]\w|\bllama_(?:model|init|new|load|kv)\w*|/llama\.cpp/"
    r"|failed call to cuInit: CUDA_ERROR_(?:UNKNOWN|NOT_FOUND)|CUDA failure 500: named symbol"
    r"|does not match DSO version"
)
#: So does Paddle with the software of an Ascend NPU.
_OF_CANN = when_used(r"\blib(?:ascend\w{0,12}|atb|hccl|opapi)\.so")
_DRIVER, _PLATFORMS = "driver", "platforms"
#: The compiler's own words, to which MSBuild adds the name of its project; what is said of the NumPy that is there; and
#: what setuptools and Python left out, whoever imports it.
_OF_NOBODY = when_used(
    r"[^\n]{0,60}\bnvcc fatal|[\w.: ]{0,40}Numba needs NumPy "
    r"|[\w.: ]{0,40}No module named '(?:pkg_resources|distutils)\b"
)
#: What such recipes are about is one package: the one that is built or loaded.
_ABOUT_A_PACKAGE = frozenset({"build", "extension", "import"})
#: Missing headers are looked at beside Triton's launcher, which needs them most often.
_COMPILED = "triton"
#: Packages whose names other programs' logs have as well: NVIDIA's libraries, and a common word.
_EVERYBODYS = when_used(r"nvidia-|kernels$")
#: In lower case; one of them stands in most logs of programs that use the stack.
_OF_THE_STACK = (
    "|".join(re.escape(one.name).replace(r"\-", "[-_ ]?") for one in PACKAGES if not _EVERYBODYS.match(one.name))
    + r"|attn|attention(?! ?[:!])|cuda initialization:|diffus|hugging|flash[-_]|flashi"
    r"|(?<!lib)(?<!micro)mamba(?!forge)|conv1d|\bapex|comfy|whisper|llama|(?<!p)lora"
    r"|llm|gptq|awq|megatron|unsloth|exllama|ggml|\btts|tts\b|gauss|spconv|detectron|mmcv|nvdiffrast|tiny-?cuda|cutlass"
    r"|flux|rwkv|inductor|\bgpt|gpt\b|rasteriz|webui|nunchaku|kohya|qwen|deepseek|gemma|mistral|\btrain|\bfused"
    r"|(?<!cycles)(?<!_)_kernel(?!s\.(?:cu|o)\b)|'loss'|\btgi\b|nvidia-container-cli: requirement"
    # What torch and its builds say of a GPU, a driver, a toolkit or a dtype names none of them.
    r"|runtimeerror: (?:cuda|hip)|hipmoduleload|hiperrornobinaryforgpu"
    r"|no available kernel\. aborting|cpp_extension|\bflatparameter|n3c10|c10::"
    r"|driver on your system|cuda_home|bfloat16|float16|\bbf16|\bfp16"
)
#: Packages of programs that train models, run them or serve them, known in a log by their files or imports.
_LEARNING_PACKAGES = (
    r"nemo|monai|verl|trl|swift|optimum|nanotron|esm|chronos|kokoro|outlines|quanto|mlx\w*|espnet\w*"
    r"|fairseq|timm|evaluate|supervision|colossalai|openrlhf|torchgeo"
)
#: What programs say besides that train models, run them or serve them.
_OF_LEARNING = (
    r"torch|cuda|\bgpu|rocm|amdgpu|transformers|lightning|gradio|dataset|data_?loader|collate|finetun|fine-tun"
    r"|inference|\bdeep ?learn|neural|\bepoch|\bmm(?:seg|det|pose|engine)|tensorboard|tensorflow|\bkeras|\bjax|onnx"
    r"|openvino|tensorrt|librosa|paddle|sentencepiece|_pb2|serialization\.py|inline_container|\bweights\b|batch_?size"
    r"|learning_rate|pretrain|embedding|safetensors|auto_?tokenizer|tokenizer_config|tokenizer\.(?:json|model)"
    r"|compressed[_-]tensors|speechbrain|pyannote|ultralytics|\byolo|open_clip|lmdeploy|sglang|stable[-_ ]diffusion"
    rf"|(?:site|dist)-packages/(?:{_LEARNING_PACKAGES})/"
    rf"|\b(?:(?:from|import) |named '?|(?<!find )module '?)(?:{_LEARNING_PACKAGES})\b"
    r"|fooocus|framepack|invoke-?ai|so-?vits|wan2gp|\ba1111\b|\bsd\.next|swarmui|facefusion|insightface|musetalk"
    r"|\bworld[_ ]?size|(?:tensor|pipeline|expert|context|sequence|data)[ _-](?:model[ _-])?parallel|micro[ _-]?batch"
    r"|global[ _-](?:train[ _-])?batch|\binput_ids|attention_mask|hidden_states?\b|state_?dict|\blogits"
    r"|num_(?:kv_)?heads|lr_scheduler|grad_?norm|\.(?:pth|ckpt|gguf|safetensors)\b|\binfer_tp\b|\brollout\b[^\n]{0,20}(?:world|work|engine)"
    r"|checkpoint(?!s? (?:record|complete|start))"  # those of databases are followed by these
)
#: And what all of these have that compute on a GPU, or are of Python.
_OF_COMPUTING = (
    r"nvcc|\.cuh?\b|\bhip|(?:site|dist)-packages|conda|traceback \(most recent|nvidia|nvml|nccl|text_generation"
    r"|ollama|mpsndarray|metalperformance|\bmodels?\b|python|\bpip3?\b|slurm|vulkan|deepstream|oneapi|\bsycl"
    r"|cisa routine|\bnpu\b|num(?:py|ba)"
)
#: Libraries of recipes whose messages compilers, loaders, containers and drivers say to all programs alike.
_OF_ANY_PROGRAM = frozenset({"build", "driver", "environment", "extension", "import", "torch", "triton"})

#: Circles around the attention stack, the innermost first: each holds those before it.
_CIRCLES = tuple(map(re.compile, (_OF_THE_STACK, _OF_LEARNING, _OF_COMPUTING)))
#: What somebody typed below a message names packages, and is none of its words.
_INSTALLS = when_used(r"^\W{0,6}(?:\S{0,80}python\S{0,8} -m |uv )?pip3? install [^\n]*", re.MULTILINE)
#: Characters of a message in which its program signs it.
_LONGEST = 4000
_STACK, _LEARNING, _COMPUTING = range(len(_CIRCLES))
_OUTSIDE = len(_CIRCLES)
#: Lines without a word of a circle from which on the log is outside of it: a message alone may be anybody's.
_ENOUGH = {_STACK: 2, _LEARNING: 4, _COMPUTING: 8}


_GOES_ON = frozenset("ID")
#: More such lines than these tell by what they do not name whose log it is.
_MOST_OF_NONE = 3
#: What somebody says of a machine or to the reader, a record that a step goes on, a banner: as any program has it.
_OF_NO_PROGRAM = when_used(
    r"\W{0,6}(?i:(?:hi|hello|hey|dear|please|help|thanks|thank you|sorry|question|logs?|output)\b[^:\n]{0,40}$"
    r"|(?:os|gpus?|cpu|ram|memory|system|platform|machine|environment|env|hardware|driver|cuda|python|docker|kernel)\b"
    r"(?: ?(?:version|name|type|info|model))?(?: ?[:=]| v?\d|$)[^\n]{0,80}$"
    r"|(?:ubuntu|debian|windows|macos|linux|fedora|centos|wsl2?)(?: ?\d[\w. ]{0,20})?$)"
    r"|\[?(?:INFO|DEBUG|NOTE)\b|Error executing job with overrides|Set the environment variable HYDRA_FULL_ERROR"
    r"|[^\n]{0,40}\b(?:[Ss]tep|[Ii]ter(?:ation)?|[Ee]poch)[ :=]{1,3}\d[^\n]{0,200}$|(?:```|~~~|-{3,}|={3,})"
)


class Company:
    """How near a log is to the attention stack, by the words of its lines."""

    def __init__(self) -> None:
        self._lines = self._of_none = 0
        self._circle = _OUTSIDE

    def see(self, text: str, level: str = "") -> None:
        """Reads one line; `level` is that of its record."""
        if self._circle != _STACK and text.strip():
            says_nothing = level in _GOES_ON or _OF_NO_PROGRAM.match(text) is not None
            self._of_none += says_nothing
            self._lines += not says_nothing or self._of_none > _MOST_OF_NONE
            lower = text[:2000].lower()
            nearer = enumerate(_CIRCLES[: self._circle])
            self._circle = next((number for number, words in nearer if words.search(lower)), self._circle)

    def _is_outside(self, circle: int) -> bool:
        return self._circle > circle and self._lines >= _ENOUGH[circle]

    @property
    def is_foreign(self) -> bool:
        """True where nothing is of the attention stack, or of programs that compute with it."""
        return self._is_outside(_STACK)

    @property
    def of_learning(self) -> str | None:
        """`shown` where something is of programs that train models, run them or serve them, `no` where nothing is;
        None where there are too few lines to tell.
        """
        if self._circle <= _LEARNING:
            return "shown"
        return "no" if self._is_outside(_LEARNING) else None

    @property
    def is_remote(self) -> bool:
        """True where many lines have nothing of CUDA, ROCm or Python's packages either."""
        return self._is_outside(_COMPUTING)


def may_be_of_any_program(library: str) -> bool:
    """True for a recipe's library whose messages are said to programs of all kinds."""
    return library in _OF_ANY_PROGRAM


def is_of_a_stranger(unit: Unit) -> bool:
    """True for a message of a program that shares the GPU, and no code, with the attention stack."""
    message = unit.message[:_LONGEST]
    return _is_signed(unit.frames[-1][0] if unit.frames else "", _INSTALLS.sub("", message))


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
