"""A launch's arguments without their tensors: the properties that Triton reads when it compiles a kernel.

Triton compiles two launches once if their arguments have equal keys: for a tensor its dtype and whether its address is
divisible by 16; for a number its width, whether it is 1 and whether it is divisible by 16; for a constant its value.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Optional, Tuple


class TensorStandIn:
    """The properties of a tensor that Triton reads when it compiles a kernel: the dtype, and whether its address is
    divisible by 16.
    """

    def __init__(self, dtype: object, offset: int, shape: Tuple[Any, ...], strides: Tuple[Any, ...]) -> None:
        self.dtype, self.shape = dtype, shape
        self._offset, self._strides = offset, strides

    def data_ptr(self) -> int:
        return self._offset

    def ptr_range(self) -> int:
        return 0

    def stride(self, dim: Optional[int] = None) -> object:
        return self._strides if dim is None else self._strides[dim]


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of a launch, for people and for JSON."""

    name: str
    kind: str
    """"tensor" | "scalar" | "constexpr" | "descriptor" | "tuple" """
    text: str
    """A tensor's dtype ("bfloat16"), a scalar's or constant's value."""


def stand_in(name: str, value: Any, constant: bool) -> Tuple[Any, Argument, Any]:
    """(what is stored, its text, its part of the key)."""
    if constant:
        text = _constant_text(value)
        return value, Argument(name, "constexpr", text), (name, text)
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        kept = _tensor(value)
        dtype = str(value.dtype).replace("torch.", "")
        return kept, Argument(name, "tensor", dtype), (name, dtype, kept.data_ptr() % 16 == 0)
    if hasattr(value, "block_shape") and hasattr(value, "base"):  # triton.tools.tensor_descriptor, 3.4 on
        kept = object.__new__(type(value))
        vars(kept).update(vars(value))
        object.__setattr__(kept, "base", _tensor(value.base))
        text = f"{value.base.dtype}{list(value.block_shape)}".replace("torch.", "")
        return kept, Argument(name, "descriptor", text), (name, text)
    if isinstance(value, tuple):
        parts = [stand_in(f"{name}[{index}]", part, False) for index, part in enumerate(value)]
        values = tuple(part[0] for part in parts)
        values = type(value)(*values) if hasattr(value, "_fields") else values
        text = "(" + ", ".join(part[1].text for part in parts) + ")"
        return values, Argument(name, "tuple", text), (name, tuple(part[2] for part in parts))
    if not isinstance(value, (bool, int, float, str, type(None))) and hasattr(value, "__int__"):
        try:
            value = int(value)  # a SymInt of a traced shape
        except Exception:
            pass
    if isinstance(value, int) and not isinstance(value, bool):
        width = 32 if -(2**31) <= value < 2**31 else 64 if value < 2**63 else 65
        return value, Argument(name, "scalar", str(value)), (name, width, value == 1, value % 16 == 0)
    if isinstance(value, float):
        return value, Argument(name, "scalar", str(value)), (name, "float")
    return value, Argument(name, "scalar", _constant_text(value)), (name, _constant_text(value))


def _constant_text(value: object) -> str:
    inner = getattr(value, "fn", None)
    if inner is not None and hasattr(inner, "__qualname__"):  # a kernel passed to a kernel
        return f"{inner.__module__}:{inner.__qualname__}"
    return repr(value)


def _tensor(value: Any) -> TensorStandIn:
    base = getattr(value, "base", None)  # triton.reinterpret
    tensor = base if base is not None and not hasattr(value, "storage_offset") else value
    try:
        # Allocations begin at multiples of at least 256 bytes on a GPU, so only the offset matters; a fake tensor has
        # no address.
        offset = int(tensor.storage_offset()) * int(tensor.element_size())
    except Exception:
        try:
            offset = int(value.data_ptr())
        except Exception:
            offset = 0
    shape = tuple(getattr(tensor, "shape", ()))
    try:
        strides = tuple(tensor.stride())
    except Exception:
        strides = ()
    return TensorStandIn(value.dtype, offset % 16, shape, strides)
