"""torch's own facts, without touching a GPU; and facts about the GPUs, in a child made for it.

Elsewhere: importing torch, forking, evaluation. `facts` must not call anything that sets torch's fork guard: after
`torch._C._cuda_getArchFlags()` or `_cuda_getDeviceCount()` a forked child can no longer use CUDA
(https://github.com/pytorch/pytorch/blob/main/torch/csrc/cuda/Module.cpp, poison_fork).
"""

from __future__ import annotations

import inspect
import os
import time
import warnings
from typing import TYPE_CHECKING, Any, Dict, List, Optional, TypedDict, Union

if TYPE_CHECKING:
    from types import ModuleType

    from .imports import Outcome


class Device(TypedDict, total=False):
    """A GPU that torch sees. `index` is always set; for a GPU that does not answer there is only `error` besides."""

    index: Union[int, str]
    """Its number, or what a request names in its place."""
    error: str
    name: str
    compute_capability: str
    total_memory: int
    shared_memory_per_block_optin: int
    multi_processor_count: int
    gcnArchName: str
    """Only for AMD GPUs."""
    uuid: str
    bf16_native: Optional[bool]


class _Ended(TypedDict, total=False):
    ended: Outcome
    """How the child ended that was to look."""
    warnings: List[str]


class Cuda(_Ended):
    """The GPUs that torch sees; None: unknown."""

    is_available: Optional[bool]
    reason: Optional[str]
    device_count: Optional[int]
    devices: List[Device]


def facts(torch: ModuleType) -> Dict[str, object]:
    """Facts that are cheap and have no side effects. A value that this torch does not offer is None."""
    version = torch.version
    return {
        "version": str(torch.__version__),
        "cuda": getattr(version, "cuda", None),
        "hip": getattr(version, "hip", None),
        "git_version": getattr(version, "git_version", None),
        "debug": getattr(version, "debug", None),
        "cxx11_abi": _cxx11_abi(torch),
        "file": getattr(torch, "__file__", None),
        "arch_list": None,
        "cudnn": None,
        "os_threads": os_threads(),
    }


def is_cpu_build(torch: ModuleType) -> bool:
    return getattr(torch.version, "cuda", None) is None and getattr(torch.version, "hip", None) is None


def build_facts(torch: ModuleType) -> Dict[str, Any]:
    """Runs in a forked child: the architectures and libraries of a CUDA or ROCm build. Needs no GPU.

    arch_list: "sm_90" is machine code, "compute_90" PTX, "gfx942" ROCm. cudnn: as in "9.19.0".
    """
    found: Dict[str, Any] = {"arch_list": None, "cudnn": None}
    flags = torch._C._cuda_getArchFlags() if hasattr(torch._C, "_cuda_getArchFlags") else None
    if flags is not None:
        found["arch_list"] = flags.split()
    try:
        found["cudnn"] = _cudnn(torch)
    except Exception as error:  # noqa: BLE001
        found["cudnn_reason"] = last_line(error)
    return found


def cuda(torch: ModuleType) -> Cuda:
    """Runs in a forked child: the GPUs that torch sees through CUDA (or ROCm); if none, torch's reason."""
    # In the parent it keeps is_available() from initialising CUDA. Here the real initialisation is needed: NVML may
    # report a GPU that CUDA cannot use.
    os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = bool(torch.cuda.is_available())
        reason = None if available else _why_not(torch, caught)
    answer: Cuda = {"is_available": available, "reason": reason, "device_count": 0, "devices": []}
    answer["warnings"] = [str(w.message) for w in caught]
    if available:
        count = answer["device_count"] = int(torch.cuda.device_count())
        answer["devices"] = [_device(torch, index) for index in range(count)]
    return answer


def cpu_build(torch: ModuleType) -> Cuda:
    """The answer of `cuda` for a torch without GPU code; needs no child."""
    return {
        "is_available": False,
        "reason": "Torch not compiled with CUDA enabled",
        "device_count": 0,
        "devices": [],
        "warnings": [],
    }


def os_threads() -> Optional[int]:
    """Number of threads of this process according to the kernel; None when /proc does not show it.

    On a busy machine a thread that was joined may be listed a moment longer: the list is read again.
    """
    try:
        for _ in range(20):
            if len(os.listdir("/proc/self/task")) == 1:
                break
            time.sleep(0.005)
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return None


def last_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "{}: {}".format(type(error).__name__, lines[-1].strip()) if lines else type(error).__name__


def telling_line(error: BaseException) -> str:
    """The message; of a long one, which includes a C++ stack or a compiler's log, the line with the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    telling = next((line for line in lines if "Error" in line or "error" in line), lines[0])
    first = lines[0] if len(lines[0]) > 15 else telling
    return "{}: {}".format(type(error).__name__, first)


def _cxx11_abi(torch: ModuleType) -> Optional[bool]:
    if hasattr(torch, "compiled_with_cxx11_abi"):
        return bool(torch.compiled_with_cxx11_abi())
    flag = getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", None)
    return None if flag is None else bool(flag)


def _cudnn(torch: ModuleType) -> Optional[str]:
    """The version of the cuDNN that is loaded, which may differ from the one that torch was built with."""
    if not getattr(torch._C, "_has_cudnn", False) or getattr(torch.version, "cuda", None) is None:
        return None
    numbers = torch._C._cudnn.getRuntimeVersion()
    return ".".join(str(number) for number in numbers)


def _why_not(torch: ModuleType, caught: List[warnings.WarningMessage]) -> Optional[str]:
    if caught:
        return str(caught[-1].message).strip()
    try:
        torch.cuda.init()
    except Exception as error:  # noqa: BLE001
        return str(error).strip() or type(error).__name__
    if torch.cuda.device_count() == 0:
        return "torch.cuda.init() succeeds, but no device is visible"
    return None


def _device(torch: ModuleType, index: int) -> Device:
    device: Device = {"index": index}
    try:
        properties = torch.cuda.get_device_properties(index)
    except Exception as error:  # noqa: BLE001
        # One device that fell off the bus must not hide its seven neighbours.
        device["error"] = last_line(error)
        return device
    device["name"] = properties.name
    device["compute_capability"] = "{}.{}".format(properties.major, properties.minor)
    device["total_memory"] = properties.total_memory
    if getattr(properties, "shared_memory_per_block_optin", None) is not None:
        device["shared_memory_per_block_optin"] = properties.shared_memory_per_block_optin
    if getattr(properties, "multi_processor_count", None) is not None:
        device["multi_processor_count"] = properties.multi_processor_count
    # CUDA builds have it too, with the GPU's name as value (seen on torch 2.11).
    if getattr(torch.version, "hip", None) is not None and hasattr(properties, "gcnArchName"):
        device["gcnArchName"] = properties.gcnArchName
    uuid = getattr(properties, "uuid", None)
    if uuid is not None:
        device["uuid"] = str(uuid)
    device["bf16_native"] = _bf16_native(torch, index)
    return device


def _bf16_native(torch: ModuleType, index: int) -> Optional[bool]:
    """Whether torch reports bf16 without emulation; None when this torch has no API for it (before 2.5)."""
    function = torch.cuda.is_bf16_supported
    try:
        if "including_emulation" not in inspect.signature(function).parameters:
            return None
        with torch.cuda.device(index):
            return bool(function(including_emulation=False))
    except Exception:  # noqa: BLE001
        return None
