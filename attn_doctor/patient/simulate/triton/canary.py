"""Tests whether the installed Triton compiles a transposed bfloat16 tile, in a child process.

Needs no torch and no GPU, and takes about two seconds. The doctor interprets the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping, Optional, TypedDict, cast

from .. import children
from ..cuda.simulated_gpu import Gpu, from_request
from . import compile as triton_compile
from . import driver as triton_driver

if TYPE_CHECKING:
    from ..cuda.simulated_gpu import Described

_IMPORTED = "attn-doctor canary: Triton is imported"
_CERTAINLY_HANGS = 30.0
"""Processor seconds: this one kernel takes about two."""
_SIGNS = (
    "Expected 'i16' but got 'bf16'",
    "'llvm.extractelement' op failed to verify that result type matches vector element type",
)


class _Bfloat16:
    """Triton reads only the name of a dtype, so torch need not be imported."""

    def __str__(self) -> str:
        return "torch.bfloat16"

    __repr__ = __str__


class Request(TypedDict, total=False):
    """The request for the canary."""

    task: str
    gpu: Optional[Described]
    timeout: Optional[float]
    scratch: str


_OLDEST: Described = {"compute_capability": "8.0"}


class Answer(TypedDict, total=False):
    """The answer of `look`; a partial answer lacks some keys."""

    outcome: str
    triton_version: Optional[str]
    message: str
    seconds: float
    signal: Optional[str]
    compute_capability: Optional[str]
    bf16_becomes_i16: bool


def look(request: Request) -> Answer:
    """The canary's answer, for JSON. Never raises.

    request: "scratch" (an existing folder), and optionally "gpu" ({"compute_capability": "8.0", ...}; default 8.0) and
    "timeout" in seconds (60). The answer: "outcome" is compiled | refused | aborted | hung | absent | could_not_look;
    "triton_version" (None when absent or not imported), "message", "seconds", "signal", "compute_capability", and
    "bf16_becomes_i16": whether it failed in the way of Triton 2.1 to 2.3.
    """
    answer: Answer = {
        "outcome": "could_not_look",
        "triton_version": None,
        "message": "",
        "seconds": 0.0,
        "signal": None,
        "compute_capability": None,
        "bf16_becomes_i16": False,
    }
    try:
        gpu = from_request(request.get("gpu") or _OLDEST)
        answer["compute_capability"] = f"{gpu.capability[0]}.{gpu.capability[1]}"
        timeout = float(request.get("timeout") or 60.0)
        scratch = request["scratch"]
        (end,) = children.run_each([lambda: _in_the_child(gpu, scratch)], scratch=scratch, timeout=timeout)
        answer.update(_told(end, timeout))
    except Exception as error:
        answer["message"] = f"{type(error).__name__}: {error}"
    return answer


def _in_the_child(gpu: Gpu, scratch: str) -> Mapping[str, object]:
    try:
        if triton_driver.installed() is None:
            return {"outcome": "absent"}
        import triton
    except Exception as error:
        return {"outcome": "could_not_look", "message": f"import triton: {type(error).__name__}: {error}"}
    print(f"{_IMPORTED} {triton.__version__}", flush=True)
    from . import record as triton_record
    from .arguments import TensorStandIn

    tile = TensorStandIn(_Bfloat16(), 0, (64, 64), (64, 1))
    with triton_driver.virtual_driver(gpu, scratch):
        from .canary_kernel import transposed_store
    launch = triton_record.Launch(
        kernel="transposed_store",
        file="",
        line=0,
        call_site="",
        arguments=(),
        configurations=[],
        autotuned=False,
        jit_function=transposed_store,
    )
    configuration = triton_record.Configuration((tile, tile, 64, 64), {})
    compiled = triton_compile.compile_here(launch, configuration, gpu, scratch)
    if "exception" not in compiled:
        return {"outcome": "compiled"}
    return {"outcome": "refused", "message": f"{compiled['exception']}: {compiled['message']}"}


def _told(end: children.Ended, timeout: float) -> Answer:
    told: Answer = {"seconds": round(end.seconds, 3), "signal": end.signal}
    version = None
    for line in end.output.splitlines():
        if line.startswith(_IMPORTED):
            version = line[len(_IMPORTED) :].strip()
    told["triton_version"] = version
    words = triton_compile.last_words(end.output.replace(f"{_IMPORTED} {version}", ""))
    if end.how == "answered":
        told.update(cast("Answer", end.answer or {}))
        if told["outcome"] == "refused" and words:
            told["message"] += "\n" + words
    elif version is None:
        # It failed during the import of Triton: nothing is known about the kernel.
        how = {"killed": f"ended with {end.signal}", "hung": triton_compile.in_time(end, timeout)}
        told["outcome"] = "could_not_look"
        told["message"] = f"importing Triton {how.get(end.how, 'failed')}\n{words}".strip()
    elif end.how == "killed":
        told["outcome"], told["message"] = "aborted", words
    elif end.how == "hung":
        told["outcome"] = "hung" if end.computed >= _CERTAINLY_HANGS else "could_not_look"
        told["message"] = triton_compile.in_time(end, timeout)
    else:
        told["outcome"], told["message"] = "could_not_look", words
    told["bf16_becomes_i16"] = told["outcome"] in ("refused", "aborted") and any(
        sign in end.output or sign in told.get("message", "") for sign in _SIGNS
    )
    return told
