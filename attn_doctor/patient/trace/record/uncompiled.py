"""Keeps torch.compile out of the tracer's own functions.

A program that compiles its model while it is watched would have them compiled as well: Dynamo takes every Python frame
that runs below a compiled call, the modes' and the graph's too, and gives up on them after seconds and warnings.
torch's own guard around dispatch modes imports Dynamo, which a program that compiles nothing should not wait for.
"""

from __future__ import annotations

import contextlib
import sys
import types
from typing import Any, Iterator

_ROOT = __name__.split(".")[0]


def keep_out() -> None:
    """From now on, of all of our functions that are loaded. Does nothing on a torch that cannot be told."""
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        skip = _skip()
        for code in _codes():
            skip(code)


def _skip() -> Any:
    # Of the C module: its Python twin is what takes seconds to import.
    from torch._C._dynamo import eval_frame

    if hasattr(eval_frame, "skip_code"):  # of an older torch
        return eval_frame.skip_code
    action = eval_frame._FrameAction
    strategy = eval_frame._FrameExecStrategy(action.SKIP, action.DEFAULT)
    return lambda code: eval_frame.set_code_exec_strategy(code, strategy)


def _codes() -> Iterator[Any]:
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] != _ROOT:
            continue
        for value in list(vars(module).values()):
            if isinstance(value, type):
                yield from (code for one in list(vars(value).values()) for code in _of(one))
            else:
                yield from _of(value)


def _of(value: object) -> Iterator[Any]:
    value = getattr(value, "fget", None) or getattr(value, "__func__", value)
    code = getattr(value, "__code__", None)
    # What another module defined and ours only names is the program's to compile.
    if isinstance(code, types.CodeType) and str(getattr(value, "__module__", "")).split(".")[0] == _ROOT:
        yield from _with_inner(code)


def _with_inner(code: Any) -> Iterator[Any]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _with_inner(constant)
