"""The form of an operation's result (shapes, strides, dtypes), by torch's own rules for tensors without values."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

import torch

if TYPE_CHECKING:
    from torch._ops import OpOverload

    from ...arguments import Keywords, Positional

_CPU, _GPU = torch.device("cpu"), torch.device("cuda", 0)
_LOG = logging.getLogger("torch._subclasses.fake_tensor")

Described = Tuple[Tuple[int, ...], Tuple[int, ...], torch.dtype]


class Result:
    """One value that an operation returns: a description of a tensor, or any other value unchanged."""

    __slots__ = ("described", "value")

    def __init__(self, described: Optional[Described], value: object = None) -> None:
        self.described = described
        self.value = value

    @property
    def numel(self) -> int:
        count = 1
        for n in self.described[0] if self.described is not None else (0,):
            count *= n
        return count


class Shapes:
    """Computes forms; results for operands of the same form are cached."""

    def __init__(self) -> None:
        from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

        self._class: Any = FakeTensor
        self._mode = FakeTensorMode()
        self._known: Dict[Any, Any] = {}

    def of(self, op: object, args: Positional, kwargs: Keywords) -> Any:
        """The operation's result with a Result for each leaf: one, or a list or tuple. Raises torch's errors for
        operands that do not fit, and torch's exceptions when the form depends on values."""
        try:
            key = (op, _key(args), _key(kwargs) if kwargs else None)
            known = self._known.get(key)
        except TypeError:  # an argument that cannot be a key, such as a generator
            return self._asked(op, args, kwargs)
        if known is None:
            known = self._known[key] = self._asked(op, args, kwargs)
        return known

    def _asked(self, op: object, args: Positional, kwargs: Keywords) -> object:
        # torch logs each refusal as an error, but refusals are expected here.
        _LOG.disabled, before = True, _LOG.disabled
        try:
            return self._answered(op, args, kwargs, _CPU)
        except RuntimeError as error:
            if "not implemented for" not in str(error):
                raise
            return self._answered(op, args, kwargs, _GPU)  # for operations without a CPU kernel that a GPU has
        finally:
            _LOG.disabled = before

    def _answered(self, op: OpOverload, args: Positional, kwargs: Keywords, device: torch.device) -> Any:
        given, named = self._fake(args, device), {name: self._fake(value, device) for name, value in kwargs.items()}
        with self._mode:
            return _described(op(*given, **named))

    def _fake(self, value: object, device: torch.device) -> Any:
        if isinstance(value, torch.Tensor):
            return self._class(self._mode, _meta(value), device)
        if isinstance(value, (list, tuple)):
            return type(value)(self._fake(item, device) for item in value)
        if isinstance(value, torch.Generator):
            return None
        return value


def _meta(value: torch.Tensor) -> torch.Tensor:
    """A meta tensor of the same form, in a storage of the same extent."""
    shape, strides, offset = tuple(value.shape), value.stride(), value.storage_offset()
    if not offset:
        return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")
    whole = value.untyped_storage().nbytes() // value.element_size()
    return torch.empty(whole, dtype=value.dtype, device="meta").as_strided(shape, strides, offset)


def _key(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.stride(), value.storage_offset(), value.dtype)
    if isinstance(value, (list, tuple)):
        return tuple(_key(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in value.items())
    if isinstance(value, torch.Generator):
        raise TypeError("generators differ from run to run")
    hash(value)
    return (type(value), value)  # 1, 1.0 and True are equal keys but different arguments


def _described(out: object) -> Any:
    if isinstance(out, torch.Tensor):
        return Result((tuple(int(n) for n in out.shape), tuple(int(n) for n in out.stride()), out.dtype))
    if isinstance(out, (list, tuple)):
        return tuple(_described(item) for item in out) if isinstance(out, tuple) else [_described(i) for i in out]
    return Result(None, out)
