"""Task `trace_run`: runs one program under the dtype tracer and writes the results.

Request: see trace/__init__.py. Answers, as JSON files: `started` (immediately), `progress` (rewritten about once a
second and at every broken attention call, so that a run that dies or is stopped still shows how far it came), `trace`
(the complete answer, written last), and `kernels` (verdicts of the recorded Triton launches, if `compile_kernels` was
requested).

The traced program may print, exit or raise: the answer records that, and this task ends normally. Only a crash, an
os._exit or a time limit leaves no `trace`.

Elsewhere: tracing (trace/run/run.py), starting and stopping this process (the doctor).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING, List

from . import answers as _answers
from . import trace
from .uncollected import uncollected

if TYPE_CHECKING:
    from .simulate.triton.record import Launch
    from .trace.answer import Answer, Error, Request


def main(request: Request, answers: str) -> None:
    _answers.write(answers, "started", {"pid": os.getpid(), "executable": sys.executable, "time": time.time()})
    prepare(request)
    try:
        with uncollected():
            from .trace.run import run
    except ImportError as error:
        _answers.write(answers, "trace", _unusable("library missing", error))
        return
    kernels: List[List[Launch]] = []
    answer = run.trace(
        request,
        on_progress=lambda part: _answers.write(answers, "progress", part),
        on_launches=kernels.append if request.get("compile_kernels") else None,
    )
    _answers.write(answers, "trace", answer)
    if kernels:
        _answers.write(answers, "kernels", {"verdicts": _compiled(kernels[-1], request)})
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads left by the traced program must not keep this process alive; everything is written.
    os._exit(0)


def prepare(request: Request) -> None:
    """Enters the folder, the import path and the variables of a request."""
    folder = request.get("cwd")
    if folder:
        os.chdir(folder)
    for folder in reversed(request.get("sys_path") or []):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    for name, value in (request.get("env") or {}).items():
        os.environ[name] = str(value)


def _compiled(launches: List[Launch], request: Request) -> object:
    from .simulate.cuda import simulated_gpu
    from .simulate.triton import compile as triton_compile
    from .trace.rules import ASSUMED_GPU

    with tempfile.TemporaryDirectory(prefix="attn-doctor-trace-", dir=request.get("scratch")) as scratch:
        verdicts = triton_compile.compile_launches(
            launches,
            [simulated_gpu.from_request(request.get("gpu") or ASSUMED_GPU)],
            scratch=scratch,
            timeout=float(request.get("kernel_timeout") or 60.0),
            budget=request.get("kernel_budget"),
            configurations=request.get("kernel_configurations") or "enough",
        )
    return [verdict.as_dict() for verdict in verdicts]


def _unusable(kind: str, error: BaseException) -> Answer:
    text = "this interpreter cannot trace: {}: {}".format(type(error).__name__, error)
    told: Error = {
        "kind": kind,
        "type": type(error).__name__,
        "message": text,
        "at": None,
        "words": text,
        "traceback": None,
    }
    return {**trace.unanswered(), "error": told}
