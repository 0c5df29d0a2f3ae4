"""Makes torch.cuda answer as on a simulated GPU.

For traced code, which reads the device's name, capability, memory and number of multiprocessors, and chooses its
kernels, block sizes and dtypes accordingly. This module puts no tensor on the device; the caller traces CPU or fake
tensors instead. Names that a library imported from torch.cuda earlier (`from torch.cuda import is_available`) are not
replaced: enter before the library is imported.

Elsewhere: autocast, SDPA's choice, Triton.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, Tuple

from ..triton.driver import replaced
from .simulated_gpu import Gpu

# For a GPU given by its capability alone. These two values only size grids and buffers; no verdict uses them.
_MULTIPROCESSORS = 64
_MEMORY_MIB = 65536


class DeviceProperties:
    """Replaces torch.cuda's _CudaDeviceProperties, with its attribute names; sizes are in bytes."""

    def __init__(self, gpu: Gpu) -> None:
        self.name = gpu.name
        self.major, self.minor = gpu.capability
        self.total_memory = (gpu.memory_mib or _MEMORY_MIB) * 2**20
        self.multi_processor_count = gpu.multi_processor_count or _MULTIPROCESSORS
        self.shared_memory_per_block = 49152
        self.shared_memory_per_block_optin = gpu.shared_memory
        self.shared_memory_per_multiprocessor = gpu.shared_memory_per_multiprocessor
        self.max_threads_per_multi_processor = gpu.threads_per_multiprocessor
        self.max_threads_per_block = 1024
        self.regs_per_multiprocessor = 65536
        self.warp_size = 32
        self.is_integrated = 0
        self.is_multi_gpu_board = 0
        self.gcnArchName = gpu.name  # as torch sets it on NVIDIA

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name={self.name!r}, major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, multi_processor_count={self.multi_processor_count})"
        )


class NoStream:
    """A stream without queued work. A class, because libraries subclass torch.cuda.Stream and use isinstance."""

    cuda_stream = 0
    priority = 0

    def __init__(self, device: object = None, priority: int = 0, **kwargs: object) -> None:
        self.priority = priority

    @property
    def device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def query(self) -> bool:
        return True

    def record_event(self, event: object = None) -> object:
        return event if event is not None else NoEvent()

    def synchronize(self) -> None:
        pass

    def wait_event(self, event: object) -> None:
        pass

    def wait_stream(self, stream: object) -> None:
        pass

    def __enter__(self) -> NoStream:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class NoEvent:
    """An event that has always happened already, and took no time."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        pass

    def record(self, stream: object = None) -> None:
        pass

    def wait(self, stream: object = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, end_event: object) -> float:
        return 0.0

    def synchronize(self) -> None:
        pass


def is_bf16_supported(gpu: Gpu, torch_version: Tuple[int, int], including_emulation: bool = True) -> bool:
    """The result of torch.cuda.is_bf16_supported() for that torch on that GPU.

    Since 2.3 it is True below 8.0 as well, because tensors of the dtype can be created there: emulated, slow, and not
    usable by kernels.
    """
    if gpu.capability[0] >= 8:
        return True
    return including_emulation and torch_version >= (2, 3)


def version_of(text: str) -> Tuple[int, int]:
    """(2, 13) from "2.13.0+cpu" and from vendor builds such as "2.6.0a0+ecf3bae40a.nv25.1"."""
    from ..triton import driver as triton_driver

    return triton_driver.version_of(text)


@contextlib.contextmanager
def virtual_cuda(gpu: Gpu, *, available: bool = True) -> Iterator[DeviceProperties]:
    """Within this context, torch.cuda has one device: `gpu`. Everything is restored at the end.

    available: the result of is_available(). False keeps code that would move its tensors to "cuda" on the CPU, while
    queries about the device, which libraries make during import, still work.
    """
    import torch

    _known_to_dynamo()
    properties = DeviceProperties(gpu)
    version = version_of(torch.__version__)

    def index(device: object = None) -> int:
        if isinstance(device, str):
            number: Any = device.partition(":")[2]
        else:
            number = getattr(device, "index", device)
        if int(number or 0) > 0:
            raise AssertionError("Invalid device id")
        return int(number or 0)

    def get_device_properties(device: object = None) -> DeviceProperties:
        index(device)
        return properties

    def get_device_capability(device: object = None) -> Tuple[int, int]:
        index(device)
        return gpu.capability

    def get_device_name(device: object = None) -> str:
        index(device)
        return gpu.name

    def bf16(including_emulation: bool = True) -> bool:
        return is_bf16_supported(gpu, version, including_emulation)

    def nothing(*args: object, **kwargs: object) -> None:
        pass

    stream = NoStream()
    answers = {
        "is_available": lambda: available,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "get_device_capability": get_device_capability,
        "get_device_name": get_device_name,
        "get_device_properties": get_device_properties,
        "is_bf16_supported": bf16,
        "is_tf32_supported": lambda: gpu.capability[0] >= 8,
        "get_arch_list": lambda: _arch_list(gpu),
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "stream": lambda stream=None: contextlib.nullcontext(stream),
        "set_stream": nothing,
        "Stream": NoStream,
        "Event": NoEvent,
        "synchronize": nothing,
        "mem_get_info": lambda device=None: (properties.total_memory, properties.total_memory),
        "reset_peak_memory_stats": nothing,
        "can_device_access_peer": lambda device, peer_device: False,
        # Used by `with torch.cuda.device(...)` and device_of().
        "_exchange_device": lambda device: 0,
        "_maybe_exchange_device": lambda device: 0,
    }
    changes: List[Tuple[object, str, object]] = [
        (torch.cuda, name, answer) for name, answer in answers.items() if hasattr(torch.cuda, name)
    ]
    changes += _fake_tensors_without_a_context()
    changes += _jiterator()
    with replaced(*changes):
        yield properties


def _known_to_dynamo() -> None:
    """torch 2.4's dynamo asserts during its import that torch.cuda's streams and events are of its own types."""
    try:
        from torch import _streambase
    except ImportError:
        return
    for name, own in (("_StreamBase", NoStream), ("_EventBase", NoEvent)):
        register = getattr(getattr(_streambase, name, None), "register", None)  # an abstract class until 2.4
        if register is not None:
            register(own)


def _arch_list(gpu: Gpu) -> List[str]:
    """A CUDA build's own list; for a CPU build, which has none, the list of a build made for this GPU."""
    import torch

    flags = getattr(torch._C, "_cuda_getArchFlags", lambda: None)()
    return flags.split() if flags else [f"sm_{gpu.arch}"]


def _fake_tensors_without_a_context() -> List[Tuple[object, str, object]]:
    """When is_available() is True, a fake CUDA tensor allocates on device 0 to initialize the driver, which does not
    exist here.
    """
    try:
        import torch._subclasses.fake_tensor as fake_tensor
    except ImportError:
        return []
    names = ("init_gpu_context", "init_cuda_context")  # the second one until torch 2.6
    return [(fake_tensor, name, lambda *args: None) for name in names if hasattr(fake_tensor, name)]


def _jiterator() -> List[Tuple[object, str, object]]:
    """An elementwise kernel in CUDA C++ (torch.cuda.jiterator) is not compiled: its result has the shape and dtype as
    on the GPU, by broadcasting and type promotion, but not the values."""
    try:
        from torch.cuda import jiterator
    except ImportError:
        return []

    def call(self: Any, *tensors: Any, **kwargs: object) -> Any:
        for name in kwargs:
            if name not in self.kwargs_dict:
                raise KeyError(f"{name} is not declared in function definition")
        first = tensors[0].clone()
        for other in tensors[1:]:
            first = first + other
        return first if self.num_outputs == 1 and not self.return_by_ref else tuple([first] * self.num_outputs)

    return [(jiterator._JittedFunction, "__call__", call)] if hasattr(jiterator, "_JittedFunction") else []
