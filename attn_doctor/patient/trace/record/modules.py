"""The module that is running, and the names of its parameters and buffers.

torch.nn.Module.__call__ is wrapped during a recording: its global hooks would work as well, but they disable every
module's fast path, which costs more than the rest of the recorder.
"""

from __future__ import annotations

import contextlib
import inspect
import weakref
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from . import ops
from .graph import PARAMETER, Leaf, Node
from .recorder import Recorder

if TYPE_CHECKING:
    from ...arguments import Keywords, Positional


class Modules:
    """The running module, by its path from the outermost module that was called."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.paths: Dict[int, str] = {}
        self.roots: Dict[int, object] = {}
        self.stack: List[Optional[str]] = []
        self.root_call: Optional[Tuple[torch.nn.Module, Positional, Keywords]] = None
        """(module, args, kwargs) of the outermost running call; a counterfactual run may repeat it."""
        self.before_root: Optional[Callable[..., None]] = None

    def index(self, root: torch.nn.Module) -> None:
        """Records the names in a module tree: attribute paths as in state_dict."""
        if id(root) in self.roots:
            return
        self.roots[id(root)] = weakref.ref(root)
        owner = type(root).__name__
        self.paths.setdefault(id(root), owner)
        known = self.recorder.names
        for name, module in root.named_modules():
            if name:
                self.paths[id(module)] = name
            for kind, tensors in (
                ("parameter", module._parameters),
                ("buffer", module._buffers),
                ("attribute", vars(module)),
            ):
                for attribute, value in tensors.items():
                    if isinstance(value, torch.Tensor) and id(value) not in known:
                        path = "{}.{}".format(name, attribute) if name else attribute
                        self._name(value, Leaf(kind, path, owner))

    def _name(self, tensor: torch.Tensor, leaf: Leaf) -> None:
        recorder = self.recorder
        recorder.names[id(tensor)] = (weakref.ref(tensor), leaf)
        if tensor.dtype in ops.TRACKED:
            flags = PARAMETER if leaf.kind == "parameter" else 0
            recorder.nodes.set(tensor, Node(tensor.dtype, tensor.numel(), None, flags, leaf))

    def name_inputs(self, module: torch.nn.Module, args: Positional, kwargs: Keywords) -> None:
        """Marks floating-point tensors from outside as inputs, with the names of forward()'s parameters."""
        try:
            bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        except (TypeError, ValueError):
            bound = {**{str(i): value for i, value in enumerate(args)}, **kwargs}
        for name, value in bound.items():
            for item in value if isinstance(value, (list, tuple)) else (value,):
                floats = isinstance(item, torch.Tensor) and item.dtype in ops.TRACKED
                if floats and self.recorder.nodes.get(item) is None:
                    leaf = Leaf("input", str(name), type(module).__name__)
                    self.recorder.nodes.set(item, Node(item.dtype, item.numel(), None, 0, leaf))

    def enter(self, module: torch.nn.Module, args: Positional, kwargs: Keywords) -> None:
        if not self.stack:
            if self.before_root is not None:
                self.before_root()
            self.index(module)
            self.name_inputs(module, args, kwargs)
            self.root_call = (module, args, kwargs)
        self.stack.append(self.recorder.module)
        self.recorder.modules_entered += 1
        self.recorder.module = self.paths.get(id(module)) or type(module).__name__

    def leave(self, failed: bool) -> None:
        self.recorder.module = self.stack.pop()
        # After a failure the arguments are kept, for the runs that look for further failures.
        if not self.stack and not failed:
            self.root_call = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[Modules]:
        original = torch.nn.Module.__call__
        modules = self

        def __call__(module: object, *args: object, **kwargs: object) -> object:
            if modules.recorder.paused:
                return original(module, *args, **kwargs)
            modules.enter(module, args, kwargs)
            failed = True
            try:
                out = original(module, *args, **kwargs)
                failed = False
                return out
            finally:
                modules.leave(failed)

        torch.nn.Module.__call__ = __call__
        try:
            yield self
        finally:
            torch.nn.Module.__call__ = original
