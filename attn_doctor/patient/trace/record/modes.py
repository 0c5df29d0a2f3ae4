"""The two torch modes that see what a model does and call the recorder.

One sees every operation below autograd and autocast, including autocast's own casts. The other sees every call of a
torch function above them, which gives the source line, and sees scaled_dot_product_attention before its own dtype check
raises.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, FrozenSet, Optional

import torch
from torch._ops import HigherOrderOperator
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from . import backward_pass, frames
from .places import GPU

if TYPE_CHECKING:
    from torch._ops import OpOverload

    from ...arguments import Function, Given, Positional
    from .recorder import Recorder

is_autocast_enabled = torch._C.is_autocast_enabled
"""The function behind torch.is_autocast_enabled, which a simulated GPU replaces by a slower one."""


def _getters() -> FrozenSet[object]:
    found = []
    for name in (
        "shape",
        "dtype",
        "ndim",
        "layout",
        "requires_grad",
        "is_sparse",
        "is_quantized",
        "is_meta",
        "grad_fn",
        "is_leaf",
        "itemsize",
        "nbytes",
        "names",
        "is_mps",
        "is_xpu",
    ):
        getter = getattr(getattr(torch.Tensor, name, None), "__get__", None)
        if getter is not None:
            found.append(getter)
    for name in (
        "size",
        "dim",
        "numel",
        "stride",
        "is_contiguous",
        "is_floating_point",
        "element_size",
        "__len__",
        "is_complex",
        "data_ptr",
        "storage_offset",
        "nelement",
        "ndimension",
        "__hash__",
    ):
        found.append(getattr(torch.Tensor, name))
    return frozenset(found)


class Functions(TorchFunctionMode):
    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.plain = _getters()

    def __torch_function__(
        self, func: Function, types: object, args: Positional = (), kwargs: Optional[Given] = None
    ) -> object:
        if func in self.plain:
            return func(*args, **kwargs) if kwargs else func(*args)
        rec = self.recorder
        given_kwargs = kwargs
        special = rec.special.get(func)
        if kwargs and special is None and rec.fix_kwargs is not None:
            kwargs = rec.fix_kwargs(kwargs)
        before, call, given, arguments = rec.func, rec.call, rec.kwargs, rec.args
        rec.func, rec.call, rec.kwargs, rec.args = func, None, kwargs, args
        rec.autocast = is_autocast_enabled(rec.autocast_device)
        try:
            if special is not None:
                out = special(func, args, kwargs or {})
            elif kwargs:
                out = func(*args, **kwargs)
            else:
                out = func(*args)
        except Exception as error:
            if not rec.paused and not backward_pass.ends_early(error):
                rec.note_failure(func, args, kwargs, error, frames.caller(1))
            raise
        finally:
            rec.func, rec.call, rec.kwargs, rec.args = before, call, given, arguments
        if kwargs is not None and kwargs is not given_kwargs and "device" in kwargs:
            rec.places.put(out, GPU)
        if rec.heals and not rec.paused:
            out = rec.heal(func, out, frames.caller(1))
        return out


class _Ops(TorchDispatchMode):
    supports_higher_order_operators = True
    """FlexAttention, torch.cond and similar operators arrive here too: without this attribute torch refuses them under
    any mode.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Positional = (), kwargs: Optional[Given] = None
    ) -> object:
        rec = self.recorder
        if isinstance(func, HigherOrderOperator):
            # Not an operation with a schema: the operations inside it arrive by themselves, and its results are new
            # tensors.
            out = func(*args, **kwargs) if kwargs else func(*args)
            if not rec.paused:
                rec.record(func, args, kwargs, out, frames.caller(1))
            return out
        places = rec.places if rec.places.active else None
        if places is not None:
            places.check(func, args, kwargs)
        if rec.paused:
            out = func(*args, **kwargs) if kwargs else func(*args)
            if places is not None:
                places.follow(func, args, kwargs, out, rec.func, rec.kwargs)
            return out
        if rec.strict is not None:
            rec.strict(func, args)
        claimed = rec.claims.get(func)
        if claimed is None and rec.at_op is not None:
            claimed = rec.at_op(func, None, None)
        if claimed and rec.at_op is not None:
            out = rec.at_op(func, args, kwargs or {})
        else:
            out = func(*args, **kwargs) if kwargs else func(*args)
        rec.record(func, args, kwargs, out, frames.caller(1))
        if places is not None:
            places.follow(func, args, kwargs, out, rec.func, rec.kwargs)
        return out


class _PlainOps(_Ops):
    """_Ops without the guard that torch >= 2.7 puts around every dispatch mode. The guard imports torch._dynamo for the
    sake of code compiled by it, which takes longer than most traces. If dynamo was not imported, there is no such code.
    """


setattr(  # noqa: B010 - an assignment to a method is no type
    _PlainOps, "__torch_dispatch__", getattr(_Ops.__torch_dispatch__, "__wrapped__", _Ops.__torch_dispatch__)
)


def ops_mode(recorder: Recorder) -> TorchDispatchMode:
    """Creates the mode that fits this process."""
    return (_Ops if "torch._dynamo" in sys.modules else _PlainOps)(recorder)
