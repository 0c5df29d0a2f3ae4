"""Tells the serving engine that wrote a line: by its records, the names of its processes, its commands and its files.

An engine carries copies of kernels and calls them itself: words that name a kernel package are then about the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from attn_doctor.diagnose.log.unit import Line
from attn_doctor.model.libraries import libraries
from attn_doctor.quick_patterns import when_used

ENGINE = "log.engine"
#: What stands before a message: vLLM's own form of a record, which no other logger has (level, month-day, time,
#: [file:line]) but for programs whose users set their logs up likewise, told by their files, and the tags of others.
_WRITER = when_used(
    r"(?P<vllm>(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[?"
    r"(?!(?:execution|model_management|model_patcher|folder_paths)\.py)[\w./]{2,80}\.py:\d{1,6}\])"
    r"|(?P<lmdeploy>\[TM\])|(?P<sglang>\[sgl_kernel\])|(?P<tensorrt_llm>\[(?:TensorRT-LLM|TRT-LLM)\])"
)
_PROCESS = when_used(r"(?:EngineCore|VllmWorker|APIServer|Worker_(?:TP|DP|PP|EP)\d)")
_MAY_BE = (
    "Error in model exec",
    "n V1 engine",
    "Value error, ",
    "vllm",
    "vLLM",
    "VLLM",
    "sglang",
    "SGLang",
    "Capture cuda graph failed",
    "Capture CUDA graph failed",
    "--mem-fraction-static",
    "lmdeploy",
    "LMDeploy",
    "[TM]",
    "text_gen",
    "text-gen",
    "requires Flash Attention enabled",
    "--max-batch-prefill-tokens",
    "ShardCannotStart",
    "TensorRT-LLM",
    "TRT-LLM",
    "tensorrt_llm",
)
_TOLD = when_used(
    r"(?P<vllm>\bvllm serve\b|\bvllm\.(?:entrypoints|v1|engine|worker)\b|\bvLLM API server version\b|\bLLM engine \(v\d"
    r"|/vllm/(?:v1|worker|engine|entrypoints|executor|model_executor|attention|platforms|distributed)/"
    r"|\bvllm/vllm-openai\b|-packages/vllm/\w"
    r"|\bRuntimeError: Error in model execution: |\bbackend on V1 engine\b"
    # its configuration is checked by pydantic, which puts these words before the message
    r"|\bValue error, (?:The checkpoint you are|Model architectures|User-specified max_model_len|Bfloat16 is only))"
    r"|(?P<sglang>\bsglang\.launch_server\b|\bsglang serve\b|\bsglang\.srt\b|/sglang/srt/|-packages/sglang/\w"
    r"|\blmsysorg/sglang\b|\bCapture (?:cuda|CUDA) graph failed: |--mem-fraction-static\b)"
    r"|(?P<lmdeploy>\blmdeploy (?:serve|chat|lite)\b|\blmdeploy - (?:ERROR|WARNING|INFO)\b|\[TM\]\["
    r"|/lmdeploy/(?:src|pytorch|serve)/)"
    r"|(?P<text_generation_server>text[-_]generation[-_]launcher\b|/text_generation_server/"
    r"|\bhuggingface/text-generation-inference\b|\btext-generation-inference:"
    r"|Sharded \w{2,30} requires Flash Attention enabled|You need to decrease `--max-batch-prefill-tokens`"
    r"|Error: ShardCannotStart)"
    r"|(?P<tensorrt_llm>\[(?:TensorRT-LLM|TRT-LLM)\]|/tensorrt_llm/|\btrtllm-(?:build|serve|bench)\b)"
)  # fmt: skip

#: What a person says that the model is run by; where it works with the engine, the message is another's.
_SAID = when_used(
    r"(?:\b(?:[Uu]s(?:e|ed|ing)|(?:[Rr]un|[Rr]unning|[Ss]erved?|[Ss]erving|[Dd]eploy(?:ed|ing)?"
    r"|(?:[Ss]tart|[Ll]aunch|[Ll]oad)(?:ed|ing)?)"
    r" (?:[\w./:-]{1,60} ){0,5}?(?:with|by|via|on|in|using)|\b[Dd]o (?:it|so|that|this) (?:with|via|in|on)) "
    r"|使用 ?|用 ?)"
    r"(?:(?P<vllm>vllm|vLLM|VLLM)|(?P<sglang>sglang|SGLang|sgLang)|(?P<lmdeploy>lmdeploy|LMDeploy))(?![A-Za-z0-9_/-])"
    r"|\b(?:[Dd]eploy|[Ss]erv|[Hh]ost)\w{1,6} [^\n()]{0,60}"
    r"\((?:(?P<of_vllm>vllm|vLLM|VLLM)|(?P<of_sglang>sglang|SGLang))\)"
)
_WORKS = when_used(
    r"\b(?:works?|worked|fine|successful\w*|no (?:problem|issue|error)s?|train\w*|GRPO"
    r"|[Rr]ollouts?|instead of)\b"
)


def writer_of(prefix: str) -> str:
    """The engine that puts such a text before its messages; empty where none does."""
    found = _WRITER.search(prefix)
    return str(found.lastgroup).replace("_", "-") if found else ""


def engine_of(line: Line) -> str | None:
    """The distribution of the engine that wrote the line, or that it starts."""
    if line.writer or (line.origin and _PROCESS.match(line.origin)):
        return line.writer or "vllm"
    for sign in _MAY_BE:
        if sign in line.text:
            found = _TOLD.search(line.text, 0, 2000)
            said = None if found else _SAID.search(line.text, 0, 600)
            if said and not _WORKS.search(line.text, 0, 600):
                return str(said.lastgroup).removeprefix("of_")
            return str(found.lastgroup).replace("_", "-") if found else None
    return None


def by_its_release(told: Mapping[str, Mapping[str, int]]) -> Mapping[str, dict[str, int]]:
    """Where no line is an engine's own: the one engine whose release is stated."""
    stated = [name for name in ("vllm", "sglang", "lmdeploy") if f"package.{name}.version" in told]
    if len(stated) != 1 or ENGINE in told:
        return {}
    return {ENGINE: {stated[0]: min(told[f"package.{stated[0]}.version"].values())}}


def is_its(engine: str | None, frames: Sequence[object], owners: Sequence[tuple[str, str]]) -> bool:
    """True for a message of the engine in whose log it stands: without a traceback, or with the engine in it; a trainer
    that starts an engine has tracebacks of its own. `owners`: path and import name of each file that it names.
    """
    return engine is not None and (not frames or engine.replace("-", "_") in {name for _, name in owners})


def whose(subject: str | None, engine: str | None) -> str | None:
    """Whose a message of that engine is, which names this package in passing, or none."""
    return engine if engine and (subject is None or subject in _copied()) else subject


@cache
def _copied() -> frozenset[str]:
    """The distributions of FlashAttention, of whose kernels engines have copies of their own."""
    flash = [one for one in libraries() if one.attn_implementation.startswith("flash_attention")]
    return frozenset(name for one in flash for name in one.distributions)
