"""Slow paths: a loop of torch operations in the place of a kernel whose library is not installed.

Told by what ran: a function whose name says that it is torch's own way, in a package, where the library is missing.
And by what a package says of it:

transformers says it once a process, as a warning: "`chunk_gated_delta_rule` is falling back to its reference PyTorch
implementation because `flash-linear-attention` is not installed"; up to 4.57 "The fast path is not available because
one of the required library is not installed", with the addresses of the libraries. The warning is taken where it is
made, so that a silenced logger hides nothing.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import re
from typing import Any, Iterable, Iterator, List, Tuple

from ...libraries import LIBRARIES  # noqa: TID252

_SAID = (
    re.compile(r"`(?P<what>[\w.]+)` is falling back to its reference PyTorch implementation because `(?P<who>[^`]+)`"),
    re.compile(r"(?P<what>fast path) is not available because", re.IGNORECASE),
)
#: Functions that packages bring for want of a kernel: their name, the module that would bring it, and its distribution.
_LOOPS = (
    *((re.compile(one.loops), one.top_level, one.distributions[0]) for one in LIBRARIES if one.loops),
    (re.compile(r"(?P<what>causal_conv1d_(?:fn|update))"), "causal_conv1d", "causal-conv1d"),
    (re.compile(r"(?P<what>slow_forward|torch_forward)"), "mamba_ssm", "mamba-ssm"),
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


def ran(functions: Iterable[Tuple[str, str]]) -> List[str]:
    """The same of (file, function) that ran in packages; nothing of a library that is installed, which the device or
    the call may keep from running."""
    found = []
    for file, function in sorted(functions):
        for loop, module, distribution in _LOOPS if "site-packages" in file or "dist-packages" in file else ():
            match = loop.fullmatch(function)
            if match is not None and not _is_there(module):
                found.append("{}: {}".format(match["what"], distribution))
    return list(dict.fromkeys(found))


def together(said: List[str], ran_ones: List[str]) -> List[str]:
    """What was said, and what ran without a word: a function once, whose library two spell in two ways."""
    named = {one.partition(":")[0] for one in said}
    return [*said, *(one for one in ran_ones if one.partition(":")[0] not in named)]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return True  # it is there in part: its own finding


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
