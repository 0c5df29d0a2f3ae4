"""Task `semantics_run`: what one model's attention computes (semantics/__init__.py has request and answer).

Answers: `semantics`, rewritten after each check, so that a run that dies or is stopped still shows what it found. The
last has `seconds`.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict

from . import answers as _answers
from .trace_run import prepare


def main(request: Dict[str, Any], answers: str) -> None:
    prepare(request)  # type: ignore[arg-type]
    try:
        from .semantics import run
    except ImportError as error:
        message = "this interpreter cannot look: {}: {}".format(type(error).__name__, error)
        missing = {"kind": "library missing", "message": message, "traceback": None}
        _answers.write(answers, "semantics", {**_nothing(), "error": missing})
        return

    def tell(answer: Dict[str, Any]) -> None:
        _answers.write(answers, "semantics", answer)

    tell(run.examine(request, on_check=tell))
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that the model left must not keep this process alive; everything is written.
    os._exit(0)


def _nothing() -> Dict[str, Any]:
    from .semantics import unanswered

    return unanswered()
