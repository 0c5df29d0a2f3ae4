"""The provenance graph: which call, on which line, made a tensor of which dtype from which others.

Nodes refer to nodes and never to tensors, so that tracing keeps no activation alive; a node is freed with the last
tensor that descends from it.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Callable, Dict, Generic, Optional, Tuple, TypeVar

import torch

from . import ops

if TYPE_CHECKING:
    from .frames import Site

PARAMETER = 1
"""A parameter, or computed from parameters alone."""
PROJECTED = 2
"""The result of a product with a weight, or a descendant of one: a hidden state, not a constant."""
ON_GPU = 4
"""Was requested on a GPU that is simulated (see redirect.py)."""
NARROWED = 8
"""A hidden state that was in half precision at some time since its projection: if it is wide now, a call widened it."""


class Leaf:
    """The origin of a tensor that no traced operation made."""

    __slots__ = ("kind", "name", "owner")

    def __init__(self, kind: str, name: str = "", owner: str = "") -> None:
        self.kind = kind
        """parameter, buffer, attribute, input, or "made before the trace"."""
        self.name = name
        self.owner = owner


class Call:
    """One call of a torch function by user code; several operations may run inside it."""

    __slots__ = ("asked", "autocast", "backward", "func", "like", "module", "site")

    def __init__(
        self, func: object, site: Optional[Site], module: Optional[str], autocast: bool, asked: object
    ) -> None:
        self.func = func
        self.site = site
        self.module = module
        self.autocast = autocast
        self.asked = asked
        """The dtype that the caller named, as in softmax(..., dtype=torch.float32)."""
        self.backward = False
        self.like: Optional[Node] = None
        """The tensor whose dtype a cast takes: x.to(other), x.type_as(other)."""


class Event:
    """One operation below autocast: its inputs, and the call it ran in."""

    __slots__ = ("call", "inputs", "op")

    def __init__(self, op: object, call: Call, inputs: Tuple[Node, ...]) -> None:
        self.op = op
        self.call = call
        self.inputs = inputs


class Node:
    """A tensor without its values."""

    __slots__ = ("dtype", "event", "filled_from", "flags", "leaf", "numel", "real")

    def __init__(
        self, dtype: torch.dtype, numel: int, event: Optional[Event], flags: int, leaf: Optional[Leaf] = None
    ) -> None:
        self.dtype = dtype
        self.real = ops.real_of(dtype)
        """The dtype of its parts: a float32 tensor that becomes complex64 has not changed in width."""
        self.numel = numel
        self.event = event
        self.flags = flags
        self.leaf = leaf
        self.filled_from: Optional[Node] = None
        """The half-precision hidden state that was first written into this tensor, which was allocated wider."""


class _Watch(weakref.ref[torch.Tensor]):
    __slots__ = ("key",)
    key: int


Kept = TypeVar("Kept")


class Nodes(Generic[Kept]):
    """Tensor -> data about it, such as its Node, by identity.

    Entries are removed when the tensor dies, because ids are reused.
    """

    def __init__(self) -> None:
        self.by_id: Dict[int, Kept] = {}
        self._watches: Dict[int, _Watch] = {}

        by_id, watches = self.by_id, self._watches

        def forget(watch: _Watch) -> None:
            # A tensor that was set again under the same id has another watch by now.
            if watches.get(watch.key) is watch:
                del watches[watch.key]
                by_id.pop(watch.key, None)

        self._forget: Callable[[_Watch], None] = forget

    def set(self, tensor: torch.Tensor, known: Kept) -> None:
        key = id(tensor)
        if key not in self._watches:
            watch = _Watch(tensor, self._forget)
            watch.key = key
            self._watches[key] = watch
        self.by_id[key] = known

    def get(self, tensor: torch.Tensor) -> Optional[Kept]:
        return self.by_id.get(id(tensor))
