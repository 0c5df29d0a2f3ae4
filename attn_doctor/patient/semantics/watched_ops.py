"""Every call of torch's functions while a module runs: its place, and what it returned."""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from ..trace.record import frames

Shape = Tuple[int, ...]


class Call:
    """One call of a torch function: its name, the user frames from the innermost outwards, and its floating outputs."""

    __slots__ = ("name", "outputs", "sites")

    def __init__(self, name: str, sites: List[frames.Site], outputs: List[torch.Tensor]) -> None:
        self.name = name
        self.sites = sites
        self.outputs = outputs


class WatchedOps(TorchFunctionMode):
    """Collects calls while `on`; keeps copies of outputs, so it is for small models only.

    `made`: the sites at which tensors that may be masks were made, by id; they are kept alive, so ids stay unique.
    """

    def __init__(self, length: int, module: torch.nn.Module) -> None:
        super().__init__()
        self.length = length
        self.files = {file for file in (_file_of(type(one)) for one in module.modules()) if file is not None}
        """Source files of the model's own classes."""
        self.makers: List[frames.Site] = []
        """Lines of the model that asked for a mask, also those that got None."""
        self._replaced: List[Tuple[Any, str, Any]] = []
        self.on = False
        self.calls: List[Call] = []
        self.made: Dict[int, List[frames.Site]] = {}
        self._kept: List[object] = []

    def __enter__(self) -> Any:
        # A maker that returns None makes no tensor that could be followed.
        for module in {sys.modules.get(name) for name in self._modules()}:
            for name, function in list(vars(module).items()) if module is not None else ():
                if name.startswith("create_") and name.endswith("mask") and inspect.isfunction(function):
                    self._replaced.append((module, name, function))
                    setattr(module, name, self._noting(function))
        return super().__enter__()

    def __exit__(self, *exc: Any) -> None:
        for module, name, function in self._replaced:
            setattr(module, name, function)
        self._replaced.clear()
        super().__exit__(*exc)

    def _modules(self) -> List[str]:
        return [name for name, one in list(sys.modules.items()) if getattr(one, "__file__", None) in self.files]

    def _noting(self, function: Any) -> Any:
        @functools.wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            site = frames.site_of(sys._getframe(1))
            if site is not None:
                self.makers.append(site)
            return function(*args, **kwargs)

        return noted

    def __torch_function__(
        self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        if not self.on and not self._like_a_mask(found):
            return found
        name = str(resolve_name(func) or getattr(func, "__name__", func)).rpartition(".")[2]
        if name.startswith("__get") or name in ("size", "dim", "stride", "is_floating_point", "__get__"):
            return found
        sites = frames.stack_of(sys._getframe(1), limit=24)
        if self._like_a_mask(found):
            self.made[id(found)] = sites
            self._kept.append(found)
        if self.on:
            tensors = found if isinstance(found, (list, tuple)) else (found,)
            kept = [one.detach().clone() for one in tensors if _has_values(one)]
            if kept:
                self.calls.append(Call(name, sites, kept))
        return found

    def _like_a_mask(self, value: object) -> bool:
        return (
            isinstance(value, torch.Tensor)
            and value.dim() >= 2
            and value.shape[-1] == self.length
            and value.shape[-2] == self.length
            and not value.requires_grad
        )


def _file_of(kind: type) -> Optional[str]:
    try:
        file = inspect.getsourcefile(kind)
    except (TypeError, OSError):
        return None
    return file if file is not None and frames.is_user(file) else None


def _has_values(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() >= 1


def own_site(module: torch.nn.Module, sites: List[frames.Site]) -> Optional[frames.Site]:
    """The line of the module's own forward among these frames."""
    try:
        forward = inspect.unwrap(type(module).forward)
        file, name = forward.__code__.co_filename, forward.__code__.co_name
    except AttributeError:
        return None
    first = forward.__code__.co_firstlineno
    last = (
        max((line for _, _, line in forward.__code__.co_lines() if line), default=first)
        if hasattr(forward.__code__, "co_lines")
        else first + 10_000
    )
    return next((site for site in sites if site[0] == file and site[2] == name and first <= site[1] <= last), None)
