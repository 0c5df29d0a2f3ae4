"""The backward pass, met where it enters autograd's engine: what runs in it is recorded as the forward is.

A checkpointed forward runs a second time in there, and functions of one's own have a backward of torch functions.
While torch.autograd.backward answers a function mode, that mode is off; it is put up again for the engine, which
hands the modes on to its own threads.
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
    """Whether a checkpointed forward was left because all that the backward pass needs of it is there again.

    torch leaves it by an exception of its own, out of whatever call came last: nothing has failed."""
    kind = type(error)
    return kind.__module__ == "torch.utils.checkpoint" and kind.__name__ == "_StopRecomputationError"


@contextlib.contextmanager
def followed(recorder: Recorder, functions: Any) -> Iterator[None]:
    """`functions`: the recorder's function mode, which sees the calls of the engine too while this lasts."""
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
