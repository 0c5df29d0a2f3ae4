"""The dispatch mode that decides for each operation whether its kernel runs or only the form of its result is
computed.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..record import ops
from . import memory, shapes

if TYPE_CHECKING:
    from torch._ops import OpOverload

    from ...arguments import Function, Keywords, Positional

WEIGHTS, OTHERS = 1 << 16, 1 << 22
"""Elements of the largest tensors that are really computed: of floating-point ones initialized like weights, with any
contents of memory or with random numbers; and of all others. A mask over an image's pixels has a million."""

_CHANCE = re.compile(r"aten::(new_)?(empty|rand|normal)")

_NO_KERNEL = re.compile("not implemented for|Could not run|not supported on CPU", re.IGNORECASE)
_VALUES = (
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "UnsupportedFakeTensorException",
    "UnsupportedOperatorException",
    "UnsupportedMutationAliasingException",
    "GuardOnDataDependentSymNode",
)
_PLAIN = torch.Tensor.__torch_dispatch__


class NoValues(RuntimeError):
    """The program reads values of a tensor that has none."""


class _Op:
    """Properties of an operation, looked up once."""

    def __init__(self, op: OpOverload) -> None:
        schema = op._schema
        arguments, returns = schema.arguments, schema.returns
        written = [a.alias_info is not None and a.alias_info.is_write for a in arguments]
        self.writes = any(written)
        aliased = bool(returns) and all(r.alias_info is not None for r in returns)
        self.view = (aliased and not self.writes) or schema.name == "aten::_unsafe_view"
        self.form_alone = ops.kind_of(op).like
        """It depends on its operand's form only, not on its values."""
        self.chance = bool(_CHANCE.match(schema.name))
        self.raw = schema.name in ("aten::set_", "aten::set_data", "aten::resize_", "aten::lift_fresh")
        self.item = schema.name == "aten::_local_scalar_dense"
        self.written = [(a.name, i if not a.kwarg_only else None) for i, a in enumerate(arguments) if written[i]]
        self.returned: List[object] = [_source(r, arguments) for r in returns]
        self.composite = bool(
            torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
            and not torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CPU")
        )


def _source(returned: Any, arguments: Any) -> object:
    """(name, position) of the argument that an operation returns, or None for a new tensor."""
    if returned.alias_info is None or not returned.alias_info.is_write:
        return None
    for i, argument in enumerate(arguments):
        if argument.alias_info is not None and argument.alias_info.before_set & returned.alias_info.before_set:
            return argument.name, None if argument.kwarg_only else i
    return None


class _Hollow(TorchDispatchMode):
    """Enter it below every other mode. Raises memory.NoRoom on creation."""

    def __init__(self, weights: int = WEIGHTS, others: int = OTHERS) -> None:
        super().__init__()
        self.memory = memory.shared()
        self.shapes = shapes.Shapes()
        self.weights = weights
        self.others = others
        self._ops: Dict[object, _Op] = {}
        self._lost: Dict[int, object] = {}
        """Storages in real memory into which hollow data was written, with weak references that prevent reuse of their
        addresses."""

    def valueless(self, tensor: torch.Tensor) -> bool:
        """True when the values of `tensor` are unknown."""
        with torch._C.DisableTorchFunction():
            try:
                storage = tensor.untyped_storage()
                return self.memory.holds(storage.data_ptr()) or (
                    bool(self._lost) and storage._cdata in self._lost and tensor.numel() > 0
                )
            except (RuntimeError, NotImplementedError):  # sparse tensors and others without a storage
                return False

    def answers(self) -> Dict[object, Function]:
        """Replacements for torch functions that read memory without an operation (Recorder.special)."""

        def refuse(func: Function, args: Positional, kwargs: Keywords) -> object:
            if self.valueless(args[0]):
                raise NoValues("{} of a tensor that has no values here".format(func.__name__))
            return func(*args, **kwargs)

        def show(func: Function, args: Positional, kwargs: Keywords) -> object:
            tensor = args[0]
            if not self.valueless(tensor):
                return func(*args, **kwargs)
            return "tensor(..., size={}, dtype={})".format(tuple(tensor.shape), tensor.dtype)

        of = torch.Tensor
        return {of.tolist: refuse, of.numpy: refuse, of.__array__: refuse, of.__dlpack__: refuse, of.__repr__: show}

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Positional = (), kwargs: Optional[Keywords] = None
    ) -> object:
        kwargs = kwargs or {}
        op = self._ops.get(func)
        if op is None:
            if not isinstance(func, torch._ops.OpOverload):
                return func(*args, **kwargs)
            op = self._ops[func] = _Op(func)
        tensors = _tensors(args)
        if kwargs:
            tensors += _tensors(kwargs.values())
        for tensor in tensors:
            if type(tensor).__torch_dispatch__ is not _PLAIN:
                return NotImplemented  # a tensor subclass of the program handles the operation first
        if op.composite:
            # Only seen in inference mode, where no layer above decomposes such an operation.
            with self:
                return func.decompose(*args, **kwargs)
        if op.view or op.raw or _elsewhere(tensors, kwargs):
            return func(*args, **kwargs)
        hollow = not op.form_alone and any(self.valueless(tensor) for tensor in tensors)
        if op.item and not hollow:
            return func(*args, **kwargs)
        try:
            results = self.shapes.of(func, args, kwargs)
        except Exception as error:
            if not hollow:
                return func(*args, **kwargs)  # computed from the values, or refused with the kernel's own message
            if type(error).__name__ not in _VALUES and not isinstance(error, NotImplementedError):
                raise
            return self._by_value(func, op, args, kwargs, tensors)
        if not hollow and self._affordable(op, tensors if not op.form_alone else (), results):
            try:
                return func(*args, **kwargs)
            except (RuntimeError, NotImplementedError) as error:
                if not isinstance(error, NotImplementedError) and not _NO_KERNEL.search(str(error)):
                    raise
        return self._made(op, args, kwargs, results)

    def _affordable(self, op: _Op, tensors: Sequence[torch.Tensor], results: object) -> bool:
        described = [result for result in _leaves(results) if result.described is not None]
        if op.chance and any(_floating(r.described[2]) and r.numel > self.weights for r in described):
            return False
        return all(one.numel <= self.others for one in described) and all(t.numel() <= self.others for t in tensors)

    def _by_value(
        self, func: Function, op: _Op, args: Positional, kwargs: Keywords, tensors: Sequence[torch.Tensor]
    ) -> object:
        """Runs an operation on hollow tensors whose result's form depends on values, if those values exist:
        floating-point operands do not affect a form. Otherwise raises the error of torch's shape rules."""
        deciding = [t for t in tensors if not _floating(t.dtype)]
        if not deciding or op.item or any(self.valueless(t) for t in deciding):
            raise  # the exception of the shape rules that is being handled
        out = func(*args, **kwargs)
        if op.writes:
            self._lose(op, args, kwargs)
            return out
        return self._emptied(out)

    def _emptied(self, out: object) -> object:
        if isinstance(out, torch.Tensor):
            return self._tensor(tuple(out.shape), out.stride(), out.dtype)
        if isinstance(out, (list, tuple)):
            return type(out)(self._emptied(item) for item in out)
        return out

    def _made(self, op: _Op, args: Positional, kwargs: Keywords, results: object) -> object:
        if op.writes:
            self._resized(op, args, kwargs, results)
            self._lose(op, args, kwargs)
        if isinstance(results, (list, tuple)):
            many = op.returned if len(op.returned) == len(results) else [None] * len(results)
            return type(results)(self._leaf(result, source, args, kwargs) for result, source in zip(results, many))
        return self._leaf(results, op.returned[0] if op.returned else None, args, kwargs)

    def _leaf(self, result: Any, source: object, args: Positional, kwargs: Keywords) -> object:
        if source is not None:
            return _argument(source, args, kwargs)
        if isinstance(result, (list, tuple)):
            return type(result)(self._leaf(one, None, args, kwargs) for one in result)
        return self._tensor(*result.described) if result.described is not None else result.value

    def _tensor(self, shape: Tuple[int, ...], strides: Tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        if 0 in shape:
            return torch.empty_strided(shape, strides, dtype=dtype)
        return self.memory.tensor(shape, strides, dtype)

    def _resized(self, op: _Op, args: Positional, kwargs: Keywords, results: object) -> None:
        """An empty `out=` takes the form of the result written to it."""
        leaves = list(_leaves(results))
        for source, result in zip(op.returned, leaves):
            out = _argument(source, args, kwargs) if source is not None else None
            if isinstance(out, torch.Tensor) and result.described is not None and not out.numel():
                shape, strides, dtype = result.described
                if tuple(out.shape) != shape and result.numel:
                    new = self.memory.tensor(shape, strides, dtype)
                    out.set_(new.untyped_storage(), 0, shape, strides)

    def _lose(self, op: _Op, args: Positional, kwargs: Keywords) -> None:
        """Marks the tensors that the operation writes to as having unknown values."""
        for source in op.written:
            for tensor in _tensors((_argument(source, args, kwargs),)):
                if not self.valueless(tensor) and tensor.numel():
                    storage = tensor.untyped_storage()
                    self._lost[storage._cdata] = _Weak(storage)


class _Weak:
    """Prevents a storage's address from being reused, without keeping its memory."""

    def __init__(self, storage: Any) -> None:
        self.cdata = storage._weak_ref()

    def __del__(self) -> None:
        torch.UntypedStorage._free_weak_ref(self.cdata)


def _argument(source: Any, args: Positional, kwargs: Keywords) -> object:
    name, position = source
    if position is not None and position < len(args):
        return args[position]
    return kwargs.get(name)


def _tensors(values: Any) -> List[torch.Tensor]:
    found: List[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(item for item in value if isinstance(item, torch.Tensor))
    return found


def _elsewhere(tensors: Sequence[torch.Tensor], kwargs: Keywords) -> bool:
    """True when the operation uses or creates meta tensors, which need no replacement."""
    device = kwargs.get("device")
    if device is not None and torch.device(device).type == "meta":
        return True
    return any(tensor.is_meta for tensor in tensors)


def _leaves(results: object) -> Any:
    if isinstance(results, (list, tuple)):
        for one in results:
            yield from _leaves(one)
    else:
        yield results


def _floating(dtype: torch.dtype) -> bool:
    return bool(dtype.is_floating_point or dtype.is_complex)


class _PlainHollow(_Hollow):
    """Without the guard that torch >= 2.7 puts around dispatch modes, as in ../record/modes.py."""


setattr(  # noqa: B010 - an assignment to a method is no type
    _PlainHollow, "__torch_dispatch__", getattr(_Hollow.__torch_dispatch__, "__wrapped__", _Hollow.__torch_dispatch__)
)


def Hollow(weights: int = WEIGHTS, others: int = OTHERS) -> _Hollow:  # noqa: N802 - stands for the class
    """Creates the mode that fits this process."""
    return (_Hollow if "torch._dynamo" in sys.modules else _PlainHollow)(weights, others)
