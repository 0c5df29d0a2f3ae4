"""Which tensors would be on the GPU and which on the CPU, although all are really on the CPU.

Only certain cases are recorded: a tensor that was requested on a GPU, one that a factory function made without a
device, and the results of operations on those. Any other tensor has no place and may be combined with all. Nothing is
recorded before the program first requests a GPU, nor after it has set a default device.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, List, Optional

import torch

from . import ops
from .graph import Nodes

if TYPE_CHECKING:
    from ...arguments import Keywords, Positional

GPU, CPU = 1, 2

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep

_CROSSING = frozenset(
    "aten::" + name
    for name in [
        "copy_",
        "_to_copy",
        "index",
        "index_put",
        "index_put_",
        "_index_put_impl_",
        "lift_fresh",
        "set_",
        "to",
    ]
)
"""Operations that accept tensors of two devices on a real GPU as well."""


_FACTORIES = frozenset(
    getattr(torch, name)
    for name in (
        ["zeros", "ones", "full", "empty", "empty_strided", "rand", "randn", "randint", "randperm", "arange", "range"]
        + ["linspace", "logspace", "eye", "tensor", "as_tensor", "from_numpy", "scalar_tensor", "normal"]
        + ["tril_indices", "triu_indices", "bartlett_window", "blackman_window", "hamming_window", "hann_window"]
    )
    if hasattr(torch, name)
)
"""Functions whose result is on the CPU when no device was named. Tensors made inside other functions, such as the zeros
of one_hot, are on the device of their operands."""


def _tensors(values: Any) -> List[torch.Tensor]:
    found: List[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif type(value) in (list, tuple):
            found.extend(item for item in value if isinstance(item, torch.Tensor))
    return found


def _in_backward() -> bool:
    # Tensors made by autograd itself have no place: they would be on the gradient's device, which is not known here.
    return bool(torch._C._current_graph_task_id() != -1)


def _by_torch_itself(given: Any) -> bool:
    """True when torch's own code gave a factory its device, as flex attention does for its masks: it copies the device
    of a tensor, and to torch all of them are on the CPU."""
    if not given or given.get("device") is None:
        return False
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "__torch_function__":
        frame = frame.f_back
    asker = frame.f_back if frame is not None else None
    return asker is not None and asker.f_code.co_filename.startswith(_TORCH)


class Places:
    """The places of one session's tensors."""

    def __init__(self) -> None:
        self._places: Nodes[int] = Nodes()
        self.used = False
        self.abandoned = False

    @property
    def active(self) -> bool:
        return self.used and not self.abandoned

    def of(self, tensor: torch.Tensor) -> Optional[int]:
        return self._places.by_id.get(id(tensor)) if self.active else None

    def put(self, value: object, place: int) -> None:
        """Records that `value`, a tensor or several, is now at this place."""
        if place == GPU:
            self.used = True
        if self.active:
            for tensor in _tensors((value,)):
                self._places.set(tensor, place)

    def moved(self, tensor: torch.Tensor, place: int, out: torch.Tensor) -> torch.Tensor:
        """The result of a move: a new tensor, as between devices, unless `tensor` is there already."""
        if out is tensor and self.of(tensor) != place and not self.abandoned:
            out = tensor.clone()
        self.put(out, place)
        return out

    def check(self, op: object, args: Positional, kwargs: Optional[Keywords]) -> None:
        """Raises the error of a GPU if tensors of both places meet in `op`."""
        if ops.kind_of(op).name in _CROSSING or _in_backward():
            return
        known = self._places.by_id
        seen = 0
        for tensor in _tensors(args) + (_tensors(kwargs.values()) if kwargs else []):
            place = known.get(id(tensor), 0)
            # A CPU tensor without dimensions counts as a number.
            if place == GPU or tensor.dim():
                seen |= place
        if seen == GPU | CPU:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
                "(in {})".format(ops.op_name(op))
            )

    def follow(
        self,
        op: object,
        args: Positional,
        kwargs: Optional[Keywords],
        out: object,
        function: object,
        given: object = None,
    ) -> None:
        """The results of `op` are at the place of its operands; `function` is the torch function called, `given` its
        keyword arguments."""
        if _in_backward():
            return
        known = self._places.by_id
        inputs = _tensors(args) + (_tensors(kwargs.values()) if kwargs else [])
        places = {known.get(id(tensor), 0) for tensor in inputs}
        if GPU in places:
            place = GPU
        elif places == {CPU} or (not inputs and (function is None or function in _FACTORIES)):
            if not inputs and _by_torch_itself(given):
                return
            place = CPU
        else:
            return
        for tensor in _tensors(out if isinstance(out, (list, tuple)) else (out,)):
            if id(tensor) not in known:
                self._places.set(tensor, place)


class NoPlaces(Places):
    """For recordings on a real GPU, where torch itself checks devices."""

    active = False  # read at every operation: a property would be slower
