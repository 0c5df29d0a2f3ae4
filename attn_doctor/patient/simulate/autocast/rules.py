"""CUDA's autocast rules on CPU tensors: the dtype that each operation would give under `torch.autocast("cuda")`.

CPU autocast has other lists than CUDA's (F.normalize in float16 stays float16 on one and becomes float32 on the other),
and `torch.autocast("cuda")` disables itself without a GPU. Inside `cuda_autocast_rules()` every CPU tensor represents a
CUDA tensor: the operations on CUDA's lists cast as on CUDA, with real values and autograd, for real and fake CPU
tensors.

Elsewhere: devices, kernels, Triton. Not reproduced: the weight cache (it saves casts, and changes no dtype),
`torch.compile`, and the error of a real CUDA operation on CPU tensors. The default dtype is set only for the entering
thread, because torch keeps autocast's state per thread.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from typing import TYPE_CHECKING, Any, Callable, Dict, FrozenSet, List, Optional, Set, Tuple, Union

import torch

from .lists import (
    APPEND_DTYPE,
    BANNED,
    BESIDE_THE_MACROS,
    FP32,
    FP32_APPEND_DTYPE,
    FP32_SET_DTYPE,
    LOWER,
    PROMOTE,
    installed_lists,
)

if TYPE_CHECKING:
    from torch._ops import OpOverload

    from ...arguments import Function, Given, Positional

_BANNED_MESSAGE = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast. "
    "(CUDA's autocast refuses this op; binary_cross_entropy_with_logits is the one that it takes.)"
)

_REDIRECTED = (
    "is_autocast_enabled",
    "set_autocast_enabled",
    "get_autocast_dtype",
    "set_autocast_dtype",
    "get_autocast_gpu_dtype",
    "set_autocast_gpu_dtype",
)


def _overload(name: str) -> Any:
    op, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, op), overload or "default")


def _registered(key: str) -> Set[str]:
    """Names without "aten::" of the operations that this torch registers for an autocast key."""
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name[len("aten::") :] for name in names if name.startswith("aten::")}


def _eligible(value: object) -> bool:
    # The header's is_eligible, with "is on the CPU" instead of "is on CUDA": float64, integers and complex are never
    # cast.
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == "cpu"
        and value.is_floating_point()
        and value.dtype != torch.float64
    )


def _cast(value: object, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.dtype != dtype and _eligible(value) else value
    if isinstance(value, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in value):
        return [_cast(item, dtype) for item in value]
    return value


def _prioritize(current: torch.dtype, value: Any, lower: torch.dtype) -> torch.dtype:
    """The header's `prioritize`: float32 wins over the autocast dtype, and a third dtype is an error."""
    if isinstance(value, (list, tuple)):
        return functools.reduce(lambda best, item: _prioritize(best, item, lower), value, current)
    if not _eligible(value):
        return current
    if torch.float32 in (current, value.dtype):
        return torch.float32
    if current == value.dtype == lower:
        return lower
    raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")


class CudaAutocastRules:
    """Context manager: CUDA's autocast rules apply to CPU tensors; `torch.autocast("cuda")` switches them.

    Enter it before the examined libraries are imported: an autocast("cuda") created earlier, such as a decorator at
    import, has already disabled itself. autocast("cpu") is treated as autocast("cuda") as well, because libraries write
    `torch.autocast(x.device.type)`. May be entered again inside itself; the outermost exit restores everything. Single
    use.

    Raises RuntimeError on entry when this torch cannot set Python kernels on its autocast keys.
    """

    _lock = threading.RLock()
    _active: Optional[CudaAutocastRules] = None

    def __init__(self) -> None:
        self.source = ""
        """Source of the lists, in words: the installed torch's own header, or the embedded copy."""
        self.torch_version = str(torch.__version__)
        self.policies: Dict[str, str] = {}
        """Op name as in "pow.Tensor_Scalar" -> its policy. Other operations have ordinary type promotion."""
        self.unlisted: Tuple[str, ...] = ()
        """Operations that this torch casts on CUDA and that no list explains: not cast here, their dtype is unknown."""
        self._owner: CudaAutocastRules = self
        self._depth = 0
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> CudaAutocastRules:
        with self._lock:
            active = CudaAutocastRules._active
            if active is None:
                with contextlib.ExitStack() as undo:
                    self._load()
                    self._install(undo)
                    self._undo = undo.pop_all()
                active = CudaAutocastRules._active = self
            active._depth += 1
        self._owner = active
        self.source, self.policies, self.unlisted = active.source, active.policies, active.unlisted
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            owner = self._owner
            owner._depth -= 1
            if owner._depth == 0:
                CudaAutocastRules._active = None
                owner._undo.close()

    def _load(self) -> None:
        if not hasattr(torch._C, "_dispatch_get_registrations_for_dispatch_key"):
            raise RuntimeError("torch {} does not say which ops autocast casts".format(self.torch_version))
        lists, self.source = installed_lists()
        on_cuda = _registered("AutocastCUDA")
        wanted = {name: policy for policy, names in lists.items() for name in names}
        wanted.update(dict.fromkeys(APPEND_DTYPE, FP32_APPEND_DTYPE))
        wanted.update(BESIDE_THE_MACROS)
        # This torch's registrations decide which operations are cast; the lists only give the policy.
        self.policies = {name: policy for name, policy in wanted.items() if name in on_cuda}
        self.unlisted = tuple(sorted(on_cuda - set(self.policies)))

    def _install(self, undo: contextlib.ExitStack) -> None:
        library = torch.library.Library("aten", "IMPL", "AutocastCPU")
        undo.callback(library._destroy)
        with warnings.catch_warnings():
            # torch warns once per process that a kernel is overridden, which is intended here.
            warnings.simplefilter("ignore")
            for name, policy in self.policies.items():
                library.impl(name, _kernel(name, policy))
            for name in sorted(_registered("AutocastCPU") - set(self.policies)):
                library.impl(name, torch.library.fallthrough_kernel)
        self._redirect(undo)

    def _redirect(self, undo: contextlib.ExitStack) -> None:
        native = {name: getattr(torch, name) for name in _REDIRECTED if hasattr(torch, name)}
        enabled, dtype = native["is_autocast_enabled"], native["get_autocast_dtype"]
        undo.callback(native["set_autocast_enabled"], "cpu", enabled("cpu"))
        undo.callback(native["set_autocast_dtype"], "cpu", dtype("cpu"))
        native["set_autocast_enabled"]("cpu", enabled("cuda"))
        native["set_autocast_dtype"]("cpu", dtype("cuda"))

        for name, function in native.items():
            by_device = native[name.replace("_gpu_", "_")]
            undo.callback(setattr, torch, name, function)
            setattr(torch, name, _on_cpu(by_device))

        mode = torch.amp.autocast_mode
        undo.callback(setattr, mode.autocast, "__init__", mode.autocast.__init__)
        mode.autocast.__init__ = _autocast_init(mode.autocast.__init__)
        # custom_fwd(cast_inputs=...) casts tensors on the device "cuda"; here they are on the CPU.
        undo.callback(setattr, mode, "_cast", mode._cast)
        mode._cast = _cast_on_cpu(mode._cast)


def cuda_autocast_rules() -> CudaAutocastRules:
    """`with cuda_autocast_rules() as rules:` CPU tensors are cast as by CUDA's autocast."""
    return CudaAutocastRules()


def _kernel(name: str, policy: str) -> Function:
    """An operation's kernel for AutocastCPU: casts by CUDA's policy, then calls the operation again below autocast."""
    op = _overload(APPEND_DTYPE.get(name, name))
    current_dtype = functools.partial(torch.get_autocast_dtype, "cpu")
    below = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)

    def call(args: Positional, kwargs: Given) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(below):
            return op(*args, **kwargs)

    def cast_and_call(dtype: torch.dtype, args: Positional, kwargs: Given) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(below):
            return op(*[_cast(a, dtype) for a in args], **{k: _cast(v, dtype) for k, v in kwargs.items()})

    def lower(*args: object, **kwargs: object) -> Any:
        return cast_and_call(current_dtype(), args, kwargs)

    def fp32(*args: object, **kwargs: object) -> Any:
        return cast_and_call(torch.float32, args, kwargs)

    # softmax also takes its dtype by position, the others only by keyword.
    names = [a.name for a in op._schema.arguments if not a.kwarg_only]
    dtype_at = names.index("dtype") if "dtype" in names else len(names)

    def set_dtype(*args: object, **kwargs: object) -> object:
        # An explicit dtype is respected; for an ineligible input the operation decides itself.
        if _eligible(args[0]):
            if len(args) > dtype_at and args[dtype_at] is None:
                args = args[:dtype_at]
            if len(args) <= dtype_at and kwargs.get("dtype") is None:
                kwargs["dtype"] = torch.float32
        return call(args, kwargs)

    def append_dtype(*args: Any, **kwargs: Any) -> object:
        kwargs["dtype"] = torch.float32 if _eligible(args[0]) else args[0].dtype
        return call(_padded(op, args, kwargs), kwargs)

    optional = _optional_tensors(op) if policy == PROMOTE else frozenset()

    def promote(*args: object, **kwargs: object) -> object:
        lower_dtype = current_dtype()
        # C++ overloads on `const Tensor&`: an optional tensor (bilinear's bias) is cast, but does not influence the
        # dtype.
        voters: List[Any] = [a for i, a in enumerate(args) if i not in optional]
        voters += [v for k, v in kwargs.items() if k not in optional]
        widest = functools.reduce(lambda best, v: _prioritize(best, v, lower_dtype), voters, lower_dtype)
        return cast_and_call(widest, args, kwargs)

    def banned(*args: object, **kwargs: object) -> object:
        raise RuntimeError(_BANNED_MESSAGE)

    policies = {
        LOWER: lower,
        FP32: fp32,
        FP32_SET_DTYPE: set_dtype,
        FP32_APPEND_DTYPE: append_dtype,
        PROMOTE: promote,
        BANNED: banned,
    }
    return _unseen(policies[policy])


def _unseen(kernel: Function) -> Function:
    # Below the dispatcher no __torch_function__ runs, so a kernel must not trigger any: in a scripted function, a
    # watching mode would record attribute reads and operations that the program does not contain.
    def run(*args: object, **kwargs: object) -> Any:
        with torch._C.DisableTorchFunction():
            return kernel(*args, **kwargs)

    return run


def _padded(op: OpOverload, args: Tuple[Any, ...], kwargs: Given) -> List[Any]:
    """The arguments including the defaults that the dispatcher stripped: the other overload has none."""
    defaults = {"p": 2, "keepdim": False}
    positional = [a.name for a in op._schema.arguments if not a.kwarg_only]
    return list(args) + [defaults[name] for name in positional[len(args) :] if name not in kwargs]


def _optional_tensors(op: OpOverload) -> FrozenSet[Union[int, str]]:
    """Positions and names of the arguments of type `Tensor?` and `Tensor?[]`."""
    found = [(i, a.name) for i, a in enumerate(op._schema.arguments) if "Optional[Tensor]" in str(a.type)]
    return frozenset(part for pair in found for part in pair)


def _on_cpu(function: Function) -> Function:
    """`function(device, ...)` with "cuda" replaced by "cpu", and "cpu" when an older caller names no device."""

    @functools.wraps(function)
    def redirected(*args: object, **kwargs: object) -> object:
        device = kwargs.pop("device_type", None)
        if device is None and args and isinstance(args[0], str):
            device, args = args[0], args[1:]
        return function("cpu" if device in (None, "cuda") else device, *args, **kwargs)

    return redirected


def _autocast_init(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def __init__(
        self: Any,
        device_type: str,
        dtype: Optional[torch.dtype] = None,
        enabled: bool = True,
        cache_enabled: Optional[bool] = None,
    ) -> None:
        if device_type not in ("cuda", "cpu"):
            original(self, device_type, dtype, enabled, cache_enabled)
            return
        # Created as disabled and enabled afterwards: for the CPU, the constructor refuses dtypes that CUDA accepts.
        original(self, "cpu", dtype, False, cache_enabled)
        self._enabled = enabled

    return __init__


def _cast_on_cpu(original: Function) -> Function:
    @functools.wraps(original)
    def cast(value: object, device_type: str, dtype: torch.dtype) -> Any:
        return original(value, "cpu" if device_type == "cuda" else device_type, dtype)

    return cast
