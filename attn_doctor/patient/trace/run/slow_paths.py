"""What a library says of its own slow path: a loop of torch operations in the place of a kernel that is not installed.

transformers says it once a process, as a warning: "`chunk_gated_delta_rule` is falling back to its reference PyTorch
implementation because `flash-linear-attention` is not installed"; up to 4.57 "The fast path is not available because
one of the required library is not installed", with the addresses of the libraries. The warning is taken where it is
made, so that a silenced logger hides nothing.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
from typing import Any, Iterator, List

_SAID = (
    re.compile(r"`(?P<what>[\w.]+)` is falling back to its reference PyTorch implementation because `(?P<who>[^`]+)`"),
    re.compile(r"(?P<what>fast path) is not available because", re.IGNORECASE),
)
_ADDRESS = re.compile(r"github\.com/[\w.-]+/([\w-]+)")


def told(message: str) -> List[str]:
    """`chunk_gated_delta_rule: flash-linear-attention`, for each library that is missing; empty for other messages."""
    for said in _SAID:
        found = said.search(message)
        if found is not None:
            libraries = [found["who"]] if "who" in said.groupindex else sorted(set(_ADDRESS.findall(message)))
            return ["{}: {}".format(found["what"], one) for one in libraries]
    return []


@contextlib.contextmanager
def heard() -> Iterator[List[str]]:
    """What is said in this context, each once."""
    found: List[str] = []
    original = logging.Logger.warning

    @functools.wraps(original)
    def warning(self: logging.Logger, message: Any, *args: Any, **options: Any) -> None:
        if "path" in str(message) or "falling back" in str(message):
            found.extend(one for one in told(str(message)) if one not in found)
        original(self, message, *args, **options)

    owner: Any = logging.Logger
    owner.warning = warning
    try:
        yield found
    finally:
        owner.warning = original
