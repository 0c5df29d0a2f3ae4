"""Graph breaks and recompilations of one region."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, Dict, Iterator, List

import torch

from ..trace.record import frames

if TYPE_CHECKING:
    from .regions import Arguments

_MOST = 8


class Graphs:
    """A backend of torch.compile that counts the graphs it is given and hands them to Inductor."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx

        self.number += 1
        return compile_fx(graph, inputs)


def breaks(module: torch.nn.Module, taken: Arguments) -> List[Dict[str, Any]]:
    """Where Dynamo leaves the graph, and why."""
    torch._dynamo.reset()
    with contextlib.suppress(Exception), torch.no_grad():
        found = torch._dynamo.explain(module)(*taken[0], **taken[1])
        return [_break(one) for one in found.break_reasons[:_MOST]]
    return []


def _break(reason: Any) -> Dict[str, Any]:
    site = next(
        ((one.filename, one.lineno, one.name) for one in reversed(reason.user_stack) if frames.is_user(one.filename)),
        None,
    )
    lines = [line.strip() for line in str(reason.reason).strip().splitlines() if line.strip()]
    return {"reason": lines[0][:300] if lines else "", "at": frames.described(site)}


@contextlib.contextmanager
def recompilations() -> Iterator[List[str]]:
    """The reasons for which something was compiled again in this context."""
    found: List[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            reasons = [line.strip(" -") for line in text.splitlines() if line.strip().startswith("-")]
            if "ecompil" in text and len(found) < _MOST:
                found.extend(one[:200] for one in reasons or [text.splitlines()[0]])

    listener = Listener()
    logger = logging.getLogger("torch._dynamo.guards.__recompiles")
    before = logger.level, logger.propagate
    logger.addHandler(listener)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    try:
        with contextlib.suppress(Exception):
            torch._logging.set_logs(recompiles=True)
        logger.addHandler(listener)  # set_logs takes handlers away
        yield found
    finally:
        logger.removeHandler(listener)
        logger.setLevel(before[0])
        logger.propagate = before[1]
        with contextlib.suppress(Exception):
            torch._logging.set_logs(recompiles=False)
