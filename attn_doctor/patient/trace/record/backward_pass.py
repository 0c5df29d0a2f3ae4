"""Records the backward pass, from its entry into autograd's engine, as the forward pass is recorded.

A checkpointed forward runs a second time in it, and custom functions have a backward made of torch functions. While
torch.autograd.backward handles a function mode, that mode is off; it is enabled again for the engine, which passes the
modes on to its own threads.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Iterator

import torch
from torch.overrides import _get_current_function_mode_stack as _modes_up

if TYPE_CHECKING:
    from .recorder import Recorder

_ENTRY = "_engine_run_backward"


def ends_early(error: BaseException) -> bool:
    """True when a checkpointed forward was left because all the tensors that the backward pass needs exist again.

    torch leaves it by an exception of its own, from whatever call came last: that is no failure."""
    kind = type(error)
    return kind.__module__ == "torch.utils.checkpoint" and kind.__name__ == "_StopRecomputationError"


@contextlib.contextmanager
def followed(recorder: Recorder, functions: Any) -> Iterator[None]:
    """`functions`: the recorder's function mode, which also sees the engine's calls within this context."""
    homes = [module for module in (torch.autograd, torch.autograd.graph) if hasattr(module, _ENTRY)]
    if not homes:
        yield  # before torch 2.3; Tensor.backward alone is answered (modes.py)
        return
    original = getattr(homes[0], _ENTRY)

    @functools.wraps(original)
    def run(*args: object, **kwargs: object) -> Any:
        before = recorder.func, recorder.call, recorder.kwargs
        recorder.func, recorder.call, recorder.kwargs = None, None, None
        try:
            with contextlib.nullcontext() if functions in _modes_up() else functions:
                return original(*args, **kwargs)
        finally:
            recorder.func, recorder.call, recorder.kwargs = before

    for home in homes:
        setattr(home, _ENTRY, run)
    try:
        yield
    finally:
        for home in homes:
            setattr(home, _ENTRY, original)
