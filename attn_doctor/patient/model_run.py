"""What the tasks `semantics_run` and `compiled_run` share: a model is examined step by step, and each step is told."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Dict

from . import answers as _answers
from .trace_run import prepare
from .uncollected import uncollected


def run(request: Dict[str, Any], answers: str, package: str) -> None:
    """Examines the model by the `run.examine` of a package beside this file, and ends the process.

    The answer has the package's name and is rewritten after each step, so that a run that dies or is stopped still
    shows what it found. The last has `seconds`.
    """
    prepare(request)  # type: ignore[arg-type]
    home = importlib.import_module("." + package, __package__)
    try:
        with uncollected():
            examine = importlib.import_module(home.__name__ + ".run").examine
    except ImportError as error:
        message = "this interpreter cannot look: {}: {}".format(type(error).__name__, error)
        missing = {"kind": "library missing", "message": message, "traceback": None}
        _answers.write(answers, package, {**home.unanswered(), "error": missing})
        return

    def tell(answer: Dict[str, Any]) -> None:
        _answers.write(answers, package, answer)

    tell(examine(request, tell))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of the model and workers of the compiler must not keep this process alive; everything is written.
    os._exit(0)
