"""Compiles recorded launches for simulated GPUs and reports the compiler's result for each.

Every configuration is compiled in a forked child with a deadline: old Tritons abort in LLVM, some kernels compile for
minutes, some never end. A kernel's verdict follows its autotuner: configurations that do not fit are skipped, and the
kernel fails for lack of shared memory only when none fits.

Nothing is launched, and the result comes from the installed Triton, not from a table of versions.
"""

from __future__ import annotations

import dataclasses
import os
import re
import tempfile
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .. import children
from ..cuda.simulated_gpu import Gpu
from . import driver as triton_driver
from . import record as triton_record
from .record import Configuration, Launch

COMPILES = "compiles"
REFUSES = "refuses"
EXCEEDS_SHARED_MEMORY = "exceeds shared memory"
ABORTED = "aborted"
HUNG = "hung"
NOT_LOOKED = "could not look"

_CERTAINLY_HANGS = 120.0
"""Processor seconds: correct kernels take more than 30 when tensor cores are emulated, and wall-clock seconds mean
little on a busy machine. With a shorter time limit than this, no hang is detected."""


@dataclasses.dataclass(frozen=True)
class ConfigurationVerdict:
    """The result of compiling one configuration for one GPU."""

    outcome: str
    tuned: Dict[str, Any]
    exception: Optional[str] = None
    """Qualified type, as in triton.runtime.errors.OutOfResources."""
    message: str = ""
    """The exception's whole text; for an abort or a hang, the last lines of the compiler's output."""
    cause: str = ""
    """The cause of a CompilationError: "AssertionError: Both operands must be same dtype. ..." """
    signal: Optional[str] = None
    text: str = ""
    """The exception's own text alone."""
    required: Optional[int] = None
    """Shared memory in bytes; None when compilation did not get that far."""
    registers: Optional[int] = None
    spilled_bytes: Optional[int] = None
    """Bytes that each thread spills to local memory."""
    tuner_skips: bool = False
    """The autotuner would skip this configuration and use another."""
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class KernelVerdict:
    """The result for one kernel on one GPU."""

    kernel: str
    call_site: str
    file: str
    line: int
    count: int
    gpu: str
    compute_capability: str
    outcome: str
    exception: Optional[str]
    message: str
    cause: str
    signal: Optional[str]
    required: Optional[int]
    """Shared memory in bytes of the deciding configuration: the first that fits, or else the first."""
    least_required: Optional[int]
    """The smallest shared memory of all configurations, in bytes."""
    limit: int
    """Shared memory in bytes available to a block on this GPU."""
    registers: Optional[int]
    spilled_bytes: Optional[int]
    autotuned: bool
    configurations: Tuple[ConfigurationVerdict, ...]
    left_out: int = 0
    """Number of configurations that were not compiled."""

    def as_dict(self) -> Dict[str, Any]:
        """As JSON values."""
        plain = dataclasses.asdict(self)
        for configuration in plain["configurations"]:
            configuration["tuned"] = {name: repr(value) for name, value in configuration["tuned"].items()}
        return plain


def compile_launches(
    launches: Sequence[Launch],
    gpus: Sequence[Gpu],
    *,
    scratch: str,
    timeout: float = 60.0,
    jobs: Optional[int] = None,
    budget: Optional[float] = None,
    configurations: str = "all",
) -> List[KernelVerdict]:
    """A verdict for every launch on every GPU; launches are the outer order.

    scratch: an existing folder for Triton's caches. timeout: seconds for each configuration. jobs: children in
    parallel, by default one per CPU. budget: seconds for all of it; the rest is then "could not look". configurations:
    "all", as the autotuner would; "first"; or "enough", in order until one compiles and fits. Never raises because of a
    kernel; raises ValueError for an unknown choice of configurations.
    """
    if configurations not in ("all", "first", "enough"):
        raise ValueError(f"configurations are all, first or enough, not {configurations!r}")
    if not launches:
        return []
    deadline = None if budget is None else time.monotonic() + budget
    _warm_up()
    pairs = [(launch, gpu) for launch in launches for gpu in gpus]
    found: List[List[ConfigurationVerdict]] = [[] for _ in pairs]
    rounds = 1 if configurations != "enough" else max(len(launch.configurations) for launch in launches)
    folder = tempfile.mkdtemp(prefix="triton-", dir=scratch)
    for turn in range(rounds):
        todo: List[Tuple[int, Configuration]] = []
        for index, (launch, _) in enumerate(pairs):
            if configurations == "all":
                todo += [(index, configuration) for configuration in launch.configurations]
            elif turn < len(launch.configurations) and not (found[index] and not found[index][-1].tuner_skips):
                todo.append((index, launch.configurations[turn]))
        if not todo:
            break
        ended = children.run_each(
            [_job(pairs[index][0], configuration, pairs[index][1], folder) for index, configuration in todo],
            scratch=folder,
            timeout=timeout,
            at_once=jobs,
            deadline=deadline,
        )
        for (index, configuration), end in zip(todo, ended):
            found[index].append(judge(configuration.tuned, end, timeout))
    return [_kernel_verdict(launch, gpu, tuple(verdicts)) for (launch, gpu), verdicts in zip(pairs, found)]


def _warm_up() -> None:
    """Does once, before the forks, what every compilation would repeat: Triton hashes its own files."""
    for module, name in (
        ("triton.runtime.cache", "triton_key"),
        ("triton.compiler.compiler", "triton_key"),
        ("triton.common.backend", "get_cuda_version_key"),
        ("triton.runtime.jit", "version_key"),
    ):
        try:
            getattr(__import__(module, fromlist=[name]), name)()
        except Exception:
            pass


def _job(launch: Launch, configuration: Configuration, gpu: Gpu, scratch: str) -> Callable[[], Dict[str, Any]]:
    return lambda: compile_here(launch, configuration, gpu, scratch)


def compile_here(launch: Launch, configuration: Configuration, gpu: Gpu, scratch: str) -> Dict[str, Any]:
    """Compiles in this process, which may die of it: run it in a child. Returns a dict for JSON."""
    triton_record.stop_recording()
    function = launch.jit_function
    if hasattr(function, "device_caches"):
        function.device_caches.clear()  # created for the device of the last launch
    if hasattr(function, "pre_run_hooks"):
        function.pre_run_hooks = []  # they belong to the user, and expect tensors
    names = list(function.arg_names)
    arguments = dict(zip(names, configuration.positional))
    answer: Dict[str, Any] = {"shared": None, "registers": None, "spilled_bytes": None}
    try:
        with triton_driver.virtual_driver(gpu, scratch):
            # By name: constants of an autotuned kernel are keyword arguments at a real launch too.
            extra = {} if (triton_driver.installed() or (0, 0)) >= (2, 3) else dict(_OLD)
            kernel = function.run(grid=(1, 1, 1), warmup=True, **arguments, **configuration.options, **extra)
            kernel = kernel.result() if hasattr(kernel, "result") else kernel
            answer["shared"] = _shared(kernel)
            kernel._init_handles()
            answer["registers"] = kernel.n_regs if kernel.n_regs >= 0 else None
            answer["spilled_bytes"] = kernel.n_spills * 4 if kernel.n_spills >= 0 else None
    except Exception as error:
        answer["exception"] = f"{type(error).__module__}.{type(error).__qualname__}"
        answer["message"] = str(error)
        answer["cause"] = _cause(error)
        answer["resource"] = getattr(error, "name", None)
        answer["ours"] = _is_ours(error)
        answer["tuner_skips"] = launch.autotuned and _tuner_skips(error)
    return answer


_ABOUT_THE_DRIVER = (AttributeError, ImportError, KeyError, NameError)
"""Errors of a kernel are a CompilationError, from Triton's C++ passes or from ptxas: never one of these."""


def _is_ours(error: BaseException) -> bool:
    """True when the simulated GPU failed instead of the kernel, so that nothing is known about the kernel."""
    if isinstance(error, _ABOUT_THE_DRIVER):
        return True
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # simulate/
    return innermost is not None and os.path.abspath(innermost.tb_frame.f_code.co_filename).startswith(ours)


_OLD = {"device": 0, "device_type": "cuda", "stream": 0}


def _shared(kernel: object) -> Optional[int]:
    metadata = getattr(kernel, "metadata", None)
    shared = getattr(metadata, "shared", None)
    return shared if shared is not None else getattr(kernel, "shared", None)


def _cause(error: BaseException) -> str:
    """The chain behind an exception, innermost last: Triton wraps errors in a CompilationError."""
    texts, seen = [], {id(error)}
    inner = error.__cause__ or error.__context__
    while inner is not None and id(inner) not in seen:
        seen.add(id(inner))
        texts.append(f"{type(inner).__name__}: {inner}".rstrip(": "))
        inner = inner.__cause__ or inner.__context__
    return "; ".join(texts)


def _tuner_skips(error: BaseException) -> bool:
    """True when this Triton's autotuner catches this exception; its code names the ones it catches."""
    from triton.runtime.autotuner import Autotuner

    return type(error).__name__ in Autotuner._bench.__code__.co_names


_NOISE = re.compile(r"^\s*(#\d+ 0x|Stack dump|\[\S+:\d+\] \*\*\*|PLEASE submit)")


def judge(tuned: Dict[str, Any], end: children.Ended, timeout: float) -> ConfigurationVerdict:
    """The verdict for a child that answered as compile_here() does, or did not. timeout: the seconds it had."""
    seconds = round(end.seconds, 3)
    if end.how == "killed":
        return ConfigurationVerdict(
            outcome=ABORTED, tuned=tuned, signal=end.signal, message=last_words(end.output), seconds=seconds
        )
    if end.how == "hung":
        outcome = HUNG if end.computed >= _CERTAINLY_HANGS else NOT_LOOKED
        return ConfigurationVerdict(outcome=outcome, tuned=tuned, message=in_time(end, timeout), seconds=seconds)
    if end.how in ("not started", "stopped"):
        return ConfigurationVerdict(outcome=NOT_LOOKED, tuned=tuned, message="the time was up", seconds=seconds)
    if end.how == "failed" or end.answer is None:
        return ConfigurationVerdict(outcome=NOT_LOOKED, tuned=tuned, message=last_words(end.output), seconds=seconds)
    answer = end.answer
    outcome, message = COMPILES, ""
    if "exception" in answer:
        of_memory = answer["resource"] == "shared memory" and answer["exception"].endswith("OutOfResources")
        outcome = EXCEEDS_SHARED_MEMORY if of_memory else REFUSES
        message = answer["message"]
        if answer.get("ours"):
            outcome = NOT_LOOKED
            message = f"attn-doctor's stand-in for the GPU failed: {answer['exception']}: {message}"
        words = last_words(end.output)
        if outcome == REFUSES and words and words not in message:
            # MLIR's own diagnostics go to stderr; the exception often only names a failed pass.
            message = f"{message}\n{words}".strip()
    return ConfigurationVerdict(
        outcome=outcome,
        tuned=tuned,
        exception=answer.get("exception"),
        message=message,
        text=answer.get("message", ""),
        cause=answer.get("cause", ""),
        required=answer["shared"],
        registers=answer["registers"],
        spilled_bytes=answer["spilled_bytes"],
        tuner_skips=bool(answer.get("tuner_skips")),
        seconds=seconds,
    )


def in_time(end: children.Ended, timeout: float) -> str:
    """For a child that did not end, how much of its time it had a processor."""
    return f"did not end within {timeout:g} s, of which it computed for {end.computed:.0f} s"


def last_words(output: str) -> str:
    """The last messages of a compiler: errors and assertions first, without its stack dump."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip() and not _NOISE.match(line)]
    telling = [line for line in lines if re.search(r"error:|Assertion|LLVM ERROR|UNREACHABLE|fatal", line)]
    return "\n".join((telling or lines)[:3] + (telling or lines)[3:][-3:])[:2000]


_FATAL = (ABORTED, HUNG, REFUSES, EXCEEDS_SHARED_MEMORY)


def _kernel_verdict(launch: Launch, gpu: Gpu, verdicts: Tuple[ConfigurationVerdict, ...]) -> KernelVerdict:
    decisive = _decisive(verdicts)
    left_out = len(launch.configurations) - sum(v.outcome != NOT_LOOKED for v in verdicts)
    outcome, message = decisive.outcome, decisive.message
    if decisive.tuner_skips and left_out:
        # A skipped configuration may fit, so the kernel is not refused yet.
        outcome, message = NOT_LOOKED, f"{left_out} configurations were not compiled; of the others: {message}"
    return KernelVerdict(
        kernel=launch.kernel,
        call_site=launch.call_site,
        file=launch.file,
        line=launch.line,
        count=launch.count,
        gpu=gpu.name,
        compute_capability=f"{gpu.capability[0]}.{gpu.capability[1]}",
        outcome=outcome,
        exception=decisive.exception,
        message=message,
        cause=decisive.cause,
        signal=decisive.signal,
        required=decisive.required,
        least_required=min((v.required for v in verdicts if v.required is not None), default=None),
        limit=gpu.shared_memory,
        registers=decisive.registers,
        spilled_bytes=decisive.spilled_bytes,
        autotuned=launch.autotuned,
        configurations=verdicts,
        left_out=left_out,
    )


def _decisive(verdicts: Tuple[ConfigurationVerdict, ...]) -> ConfigurationVerdict:
    """The configuration that decides for the kernel.

    An abort, a hang or an exception that the autotuner does not catch ends the program, whichever configuration causes
    it. Otherwise one that compiles is enough. When the autotuner skips all of them, it considers them equally bad and
    launches the first, whose exception the user sees.
    """
    for outcome in _FATAL:
        for verdict in verdicts:
            if verdict.outcome == outcome and not verdict.tuner_skips:
                return verdict
    for verdict in verdicts:
        if verdict.outcome == COMPILES:
            return verdict
    return verdicts[0]
