"""Task `compiled_run`: a model's attention regions, eager against torch.compile (compiled/__init__.py has request and
answer).

Answers: `compiled`, rewritten after each region; the last has `seconds`.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict

from . import answers as _answers
from .trace_run import prepare


def main(request: Dict[str, Any], answers: str) -> None:
    prepare(request)  # type: ignore[arg-type]
    from .compiled import unanswered

    try:
        from .compiled import run
    except ImportError as error:
        message = "this interpreter cannot look: {}: {}".format(type(error).__name__, error)
        missing = {"kind": "library missing", "message": message, "traceback": None}
        _answers.write(answers, "compiled", {**unanswered(), "error": missing})
        return

    def tell(answer: Dict[str, Any]) -> None:
        _answers.write(answers, "compiled", answer)

    tell(run.examine(request, on_region=tell))
    sys.stdout.flush()
    sys.stderr.flush()
    # The compiler's workers must not keep this process alive; everything is written.
    os._exit(0)
