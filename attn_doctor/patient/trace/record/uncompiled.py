"""Excludes the tracer's own functions from torch.compile.

A program that compiles its model under `watch` would have them compiled as well: Dynamo takes every Python frame below
a compiled call, including those of the modes and the graph, and gives up on them after seconds and warnings. torch's
own guard around dispatch modes imports Dynamo, which a program that compiles nothing should not wait for.
"""

from __future__ import annotations

import contextlib
import sys
import types
from typing import Any, Iterator

_ROOT = __name__.split(".")[0]


def keep_out() -> None:
    """Excludes all of our loaded functions from now on. Does nothing on a torch without support for it."""
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        skip = _skip()
        for code in _codes():
            skip(code)


def _skip() -> Any:
    # From the C module: its Python twin takes seconds to import.
    from torch._C._dynamo import eval_frame

    if hasattr(eval_frame, "skip_code"):  # in an older torch
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
    # Functions defined in another module and only imported here belong to the program and may be compiled.
    if isinstance(code, types.CodeType) and str(getattr(value, "__module__", "")).split(".")[0] == _ROOT:
        yield from _with_inner(code)


def _with_inner(code: Any) -> Iterator[Any]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _with_inner(constant)
