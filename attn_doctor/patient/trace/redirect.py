"""Runs code that requests a GPU on a machine without one: requests are answered as on that GPU, and code runs on the
CPU.

`device="cuda"`, `.cuda()` and `.to("cuda")` stay on the CPU, and for the traced code (not for torch itself) every
tensor reports cuda:0.

Elsewhere: torch.cuda's answers about the GPU (simulate/cuda/torch_cuda.py, entered before this), autocast, Triton.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from typing import TYPE_CHECKING, Any, Dict, List, Optional

import torch

from ..simulate.triton.driver import version_of
from .record import frames
from .record.places import CPU, GPU, Places

if TYPE_CHECKING:
    from ..arguments import Function, Given, Keywords, Positional
    from .record.recorder import Recorder

_NOT_TOLD_APART = "tensors on the CPU and on the GPU are not told apart here: where both meet in one op, a GPU raises"
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep


_CUDA_OF_WHEELS = (
    ((2, 15), "13.2"),
    ((2, 11), "13.0"),
    ((2, 8), "12.8"),
    ((2, 7), "12.6"),
    ((2, 5), "12.4"),
    ((0, 0), "12.1"),
)
"""First release, and the CUDA release for which its default wheel and those of later releases are built."""


def _from_torch(depth: int) -> bool:
    """True when torch itself is the caller: it needs the truth, or it would start a CUDA context."""
    return bool(frames.caller(depth).f_code.co_filename.startswith(_TORCH))


def is_cuda(device: object) -> bool:
    if isinstance(device, torch.device):
        return bool(device.type == "cuda")
    if isinstance(device, str):
        return device.split(":")[0] == "cuda"
    return isinstance(device, int) and not isinstance(device, bool)


class Redirect:
    """Context manager; `attach(recorder)` applies it to a recording as well."""

    def __init__(self) -> None:
        self.notes: List[str] = []
        self.places = Places()
        self.building = False
        """While a factory builds: a tensor that was not moved is on the device it reports."""
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> Redirect:
        with contextlib.ExitStack() as undo:
            cuda = torch.cuda
            for name, value in self._answers().items():
                if hasattr(cuda, name):
                    _put(undo, cuda, name, value)
            _put(undo, torch, "Generator", _generator(torch.Generator))
            if torch.version.cuda is None and torch.version.hip is None:
                # Only for a CPU build: libraries treat it as proof that there is no NVIDIA GPU.
                _put(undo, torch.version, "__class__", _Version)
            _put(undo, torch, "set_default_device", self._default_device(torch.set_default_device))
            context = sys.modules.get("torch.utils._device") or __import__("torch.utils._device").utils._device
            _put(undo, context.DeviceContext, "__init__", self._device_context(context.DeviceContext.__init__))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._undo.close()

    def _answers(self) -> Dict[str, object]:
        """Replacements for torch.cuda functions that would need a driver, and for those only torch itself may call."""
        said, counted = torch.cuda.is_available, torch.cuda.device_count

        def give(value: object) -> Function:
            return lambda *args, **kwargs: value

        answers: Dict[str, object] = {
            "is_available": lambda: False if _from_torch(2) else said(),
            "device_count": lambda: 0 if _from_torch(2) else counted(),
            "is_initialized": lambda: not _from_torch(2),
            "memory_stats": give({}),
            "get_rng_state": lambda *a, **k: torch.get_rng_state(),
            "CUDAGraph": _CUDAGraph,
        }
        for silent in (
            "manual_seed",
            "manual_seed_all",
            "seed",
            "seed_all",
            "empty_cache",
            "init",
            "_lazy_init",
            "ipc_collect",
            "reset_peak_memory_stats",
            "reset_max_memory_allocated",
            "set_rng_state",
            "set_per_process_memory_fraction",
        ):
            answers[silent] = give(None)
        for zero in (
            "memory_allocated",
            "max_memory_allocated",
            "memory_reserved",
            "max_memory_reserved",
            "memory_cached",
            "utilization",
        ):
            answers[zero] = give(0)
        return answers

    def attach(self, recorder: Recorder) -> None:
        """Applies the redirection to this recording: requests for a GPU, and the devices that tensors report."""
        recorder.fix_kwargs = self._fix_kwargs
        recorder.places = self.places
        tensor = torch.Tensor
        recorder.special[tensor.cuda] = self._cuda
        recorder.special[tensor.to] = self._to
        recorder.special[tensor.cpu] = self._cpu
        recorder.special[tensor.data.__set__] = self._set_data
        recorder.special[tensor.pin_memory] = lambda f, a, k: a[0]
        recorder.special[tensor.is_pinned] = lambda f, a, k: False
        recorder.special[tensor.is_cuda.__get__] = self._says(True)
        recorder.special[tensor.device.__get__] = self._says(torch.device("cuda", 0))
        recorder.special[tensor.get_device] = self._says(0)

    def _says(self, answer: object) -> Any:
        def getter(func: Function, args: Positional, kwargs: Keywords) -> object:
            # Frames above: this one, __torch_function__, the caller.
            place = self.places.of(args[0])
            if _from_torch(3) or place == CPU or (self.building and place != GPU):
                return func(*args, **kwargs)
            return answer

        return getter

    def _default_device(self, original: Function) -> object:
        def set_default_device(device: Any) -> object:
            if device is not None and is_cuda(device):
                self._abandon()
                device = "cpu"
            return original(device)

        return set_default_device

    def _device_context(self, original: Function) -> object:
        def __init__(context: Any, device: Any) -> None:
            if is_cuda(device):
                self._abandon()
                device = "cpu"
            original(context, device)

        return __init__

    def _abandon(self) -> None:
        """With a default device, a tensor made without one is no longer on the CPU."""
        self.places.abandoned = True
        if _NOT_TOLD_APART not in self.notes:
            self.notes.append(_NOT_TOLD_APART)

    def _fix_kwargs(self, kwargs: Given) -> Dict[str, object]:
        device = kwargs.get("device")
        if device is not None and is_cuda(device):
            kwargs = dict(kwargs, device=torch.device("cpu"))
            kwargs.pop("pin_memory", None)
        elif kwargs.get("pin_memory"):
            kwargs = {name: value for name, value in kwargs.items() if name not in ("pin_memory", "device")}
        return kwargs

    def _cuda(self, func: object, args: Positional, kwargs: Keywords) -> object:
        return self.places.moved(args[0], GPU, args[0])

    def _cpu(self, func: Function, args: Positional, kwargs: Keywords) -> object:
        return self.places.moved(args[0], CPU, func(*args, **kwargs)) if self.places.active else func(*args, **kwargs)

    def _set_data(self, func: Function, args: Positional, kwargs: Keywords) -> object:
        out = func(*args, **kwargs)
        place = self.places.of(args[1])
        if place is not None:
            self.places.put(args[0], place)
        return out

    def _to(self, func: Function, args: Positional, kwargs: Keywords) -> object:
        rest = list(args[1:])
        first = rest[0] if rest else None
        asked = kwargs.get("device")
        # to(device, ...) and to(dtype, ...) share a position; an int can only be a device.
        positional = first is not None and not isinstance(first, (torch.dtype, torch.Tensor))
        if positional:
            asked = first
        to_gpu = asked is not None and is_cuda(asked)
        if to_gpu and positional:
            rest[0] = torch.device("cpu")
        elif to_gpu:
            kwargs = dict(kwargs, device=torch.device("cpu"))
        out = func(args[0], *rest, **kwargs)
        if isinstance(first, torch.Tensor):  # to(other)
            place = self.places.of(first)
            return self.places.moved(args[0], place, out) if place is not None else out
        if to_gpu:
            return self.places.moved(args[0], GPU, out)
        if asked is not None and torch.device(asked).type == "cpu" and self.places.active:
            return self.places.moved(args[0], CPU, out)
        return out


class _Version(types.ModuleType):
    """torch.version of a CPU build: for the traced code it has the CUDA release of the same torch's build for GPUs."""

    @property
    def cuda(self) -> Optional[str]:
        if _from_torch(2):
            return None
        release = version_of(str(torch.__version__))
        return next(cuda for first, cuda in _CUDA_OF_WHEELS if release >= first)


class _CUDAGraph:
    """A class, because annotations name it (`torch.cuda.CUDAGraph | None`); creating one fails."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise CannotSimulate("torch.cuda.CUDAGraph needs a GPU and cannot be simulated")


class CannotSimulate(RuntimeError):
    """The traced code needs a GPU feature that is not simulated."""


def _put(undo: contextlib.ExitStack, owner: object, name: str, value: object) -> None:
    undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def _generator(original: Any) -> object:
    class Generator(original):
        def __new__(cls, device: Any = "cpu") -> Any:
            return original(device="cpu" if is_cuda(device) else device)

    return Generator
