"""`module.half()` and `module.to(...)` for modules whose parameters are fake.

torch changes such parameters by swapping tensors, and refuses where anybody holds a weak reference to one, which
fake tensors themselves always do (torch 2.13). Here the parameter objects are made anew instead. An optimizer
that was made before keeps the old ones: no fake training step depends on that.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator

import torch


def _renewed(module: torch.nn.Module, change: Callable[[Any], Any], memo: Dict[int, Any]) -> None:
    for child in module.children():
        _renewed(child, change, memo)
    for name, parameter in module._parameters.items():
        if parameter is None:
            continue
        if id(parameter) not in memo:
            with torch.no_grad():
                changed = change(parameter)
            same = changed is parameter
            new = parameter if same else torch.nn.Parameter(changed.detach(), parameter.requires_grad)
            memo[id(parameter)] = (new, parameter)  # the old one as well: its id must stay taken
        module._parameters[name] = memo[id(parameter)][0]
    for name, buffer in module._buffers.items():
        if buffer is not None:
            if id(buffer) not in memo:
                memo[id(buffer)] = (change(buffer), buffer)
            module._buffers[name] = memo[id(buffer)][0]


@contextlib.contextmanager
def convertible() -> Iterator[None]:
    original = torch.nn.Module._apply

    def _apply(self: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        if not recurse:
            return original(self, fn, recurse)
        _renewed(self, fn, {})
        return self

    torch.nn.Module._apply = _apply
    try:
        yield
    finally:
        torch.nn.Module._apply = original
