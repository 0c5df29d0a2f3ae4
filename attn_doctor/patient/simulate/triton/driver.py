"""A Triton driver for a simulated GPU: kernels are compiled for it, and launches do nothing.

Triton 3 has an extension point for this (`triton.runtime.driver.set_active`). Triton 2.1 to 2.3 have none: there the
lazily created driver object is filled in, and the C launcher, whose build would need libcuda, is replaced by an empty
Python module. Compilation is real in every version, down to the cubin from Triton's own ptxas; Triton's own code
compares shared memory and threads with the target's limits.

Elsewhere: recording launches (record.py), children and verdicts (compile.py).
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional, Tuple

from ..cuda.simulated_gpu import Gpu
from . import cubin

if TYPE_CHECKING:
    from ...arguments import Positional

_ABSENT = object()


def installed() -> Optional[Tuple[int, int]]:
    """(major, minor) of the Triton that can be imported, or None when there is none.

    An import that fails for another reason raises its error: that is not the same as absent.
    """
    try:
        import triton
    except ModuleNotFoundError as error:
        if error.name == "triton":
            return None
        raise
    return version_of(triton.__version__)


def version_of(text: str) -> Tuple[int, int]:
    """(3, 6) from "3.6.0", and from vendor builds such as "3.3.0+git9c71d5a" and "3.0.0.post1"."""
    numbers = []
    for part in text.split("+")[0].split(".")[:2]:
        digits = "".join(character for character in part if character.isdigit())
        numbers.append(int(digits or 0))
    return (numbers + [0, 0])[0], (numbers + [0, 0])[1]


@contextlib.contextmanager
def virtual_driver(gpu: Gpu, scratch: str) -> Iterator[None]:
    """Within this context Triton treats `gpu` as the only GPU of this process. Everything is restored at the end.

    `scratch` is an existing folder for Triton's caches and dumps. Raises ImportError when Triton is not installed.
    """
    import triton

    with contextlib.ExitStack() as stack:
        stack.enter_context(_environment(scratch))
        if version_of(triton.__version__) >= (3, 0):
            stack.enter_context(_active_driver(gpu))
        else:
            stack.enter_context(_filled_driver(gpu, scratch))
        yield


@contextlib.contextmanager
def _environment(scratch: str) -> Iterator[None]:
    """Sets variables that Triton reads at each use. TRITON_HOME redirects files that TRITON_CACHE_DIR leaves in
    $HOME.
    """
    wanted = {
        "TRITON_HOME": scratch,
        "TRITON_CACHE_DIR": os.path.join(scratch, "cache"),
        "TRITON_DUMP_DIR": os.path.join(scratch, "dump"),
        "TRITON_OVERRIDE_DIR": os.path.join(scratch, "override"),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def replaced(*replacements: Tuple[object, str, object]) -> Iterator[None]:
    """Sets attributes (owner, name, value) and restores them afterwards, including missing ones."""
    before = [(owner, name, vars(owner).get(name, _ABSENT)) for owner, name, _ in replacements]
    try:
        for owner, name, value in replacements:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)


class Utils:
    """Triton's interface to the CUDA driver: properties of the device, and loading a cubin."""

    def __init__(self, gpu: Gpu, answers_threads: bool) -> None:
        self._gpu, self._answers_threads = gpu, answers_threads

    def get_device_properties(self, device: int) -> Dict[str, int]:
        return {
            "max_shared_mem": self._gpu.shared_memory,
            "multiprocessor_count": self._gpu.multi_processor_count or 64,
            "max_num_regs": 65536,
            "warpSize": 32,
            # The clocks are used only for speeds, which are not simulated.
            "sm_clock_rate": 1_500_000,
            "mem_clock_rate": 1_500_000,
            "mem_bus_width": 4096,
        }

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> Tuple[int, ...]:
        """(module, function, registers, spilled registers, and from Triton 3.4 on the maximum threads per block)."""
        used = (cubin.resources(kernel) or {}).get(name)
        handles = (1, 1, used.registers if used else -1, used.stack_bytes // 4 if used else -1)
        # Triton writes .maxntid into the PTX, so ptxas keeps the registers within the block's limit.
        return handles + (1024,) if self._answers_threads else handles

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: 0  # tensor maps, occupancy, printf buffers: only needed for a launch


class NoLaunch:
    """A launcher that does nothing."""

    launch_cooperative_grid = False

    def __init__(self, src: object = None, metadata: object = None) -> None:
        pass

    def __call__(self, *args: object, **kwargs: object) -> None:
        pass


def _answers_threads(compiled_kernel: Any) -> bool:
    """True when this Triton expects a fifth value from load_binary; decided by its code, not its version."""
    return "n_max_threads" in compiled_kernel._init_handles.__code__.co_names


@contextlib.contextmanager
def _active_driver(gpu: Gpu) -> Iterator[None]:
    from triton.compiler import compiler
    from triton.runtime import driver

    before = dict(vars(driver))  # the default may be a lazy proxy that must not be initialized: it would look for a GPU
    driver.set_active(_make_driver(gpu, Utils(gpu, _answers_threads(compiler.CompiledKernel))))
    _forget_shared_memory(compiler)
    try:
        yield
    finally:
        vars(driver).clear()
        vars(driver).update(before)
        _forget_shared_memory(compiler)


def _forget_shared_memory(compiler: object) -> None:
    """From 3.4 on the limit of device 0 is cached, and the next device 0 is another one."""
    forget = getattr(getattr(compiler, "max_shared_mem", None), "cache_clear", None)
    if forget is not None:
        forget()


def _make_driver(gpu: Gpu, utilities: Utils) -> object:
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import GPUDriver

    class VirtualDriver(GPUDriver):
        binary_ext = "cubin"

        def __init__(self) -> None:
            self.utils, self.launcher_cls = utilities, NoLaunch
            self.get_current_stream = lambda index=0: 0
            self.get_current_device = lambda: 0
            self.set_current_device = lambda index: None
            self.get_device_capability = lambda index=0: gpu.capability

        def get_current_target(self) -> object:
            return GPUTarget("cuda", gpu.arch, 32)

        def get_active_torch_device(self) -> object:
            import torch

            return torch.device("cuda", 0)

        def get_device_interface(self) -> object:
            import torch

            return torch.cuda

        @staticmethod
        def is_active() -> bool:
            return True

        def map_python_to_cpp_type(self, ty: str) -> str:
            from triton.backends.nvidia.driver import ty_to_cpp

            return str(ty_to_cpp(ty))

        def assemble_tensormap_to_arg(self, tensormaps_info: object, args: Positional) -> object:
            return args

        def get_benchmarker(self) -> object:
            def bench(function: Any, quantiles: Any = None, **kwargs: object) -> object:
                function()
                return [1.0] * len(quantiles or (0,))

            return bench

        def get_empty_cache_for_benchmark(self) -> object:
            import torch

            return torch.empty(1)

        def clear_cache(self, cache: object) -> None:
            pass

    return VirtualDriver()


class _FilledDriver:
    """Attributes for Triton 2's only, global driver object."""

    CUDA, HIP = 0, 1
    backend = CUDA
    binary_ext = "cubin"

    def __init__(self, gpu: Gpu) -> None:
        self.utils = Utils(gpu, answers_threads=False)
        self._gpu = gpu

    def get_current_target(self) -> Tuple[str, int]:
        return "cuda", self._gpu.arch

    def get_device_capability(self, device: int = 0) -> Tuple[int, int]:
        return self._gpu.capability

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def assemble_tensormap_to_arg(self, tensormaps_info: object, args: Positional) -> object:
        return args


@contextlib.contextmanager
def _filled_driver(gpu: Gpu, scratch: str) -> Iterator[None]:
    from triton.compiler import compiler
    from triton.runtime.driver import driver

    stub = os.path.join(scratch, "empty_launcher.py")
    with open(stub, "w", encoding="utf-8") as file:
        file.write("def launch(*args):\n    pass\n")
    changes = []
    for name, value in (
        ("make_stub", lambda *args, **kwargs: stub),  # 2.1, 2.2
        ("get_current_device", lambda: 0),
        ("get_device_capability", lambda device=0: gpu.capability),
    ):
        if hasattr(compiler, name):
            changes.append((compiler, name, value))
    backend = getattr(compiler, "CUDABackend", None)  # 2.3
    if backend is not None:
        changes.append((backend, "make_launcher_stub", lambda self, src, metadata: stub))
    before = driver.__dict__["_obj"]
    driver.__dict__["_obj"] = _FilledDriver(gpu)
    try:
        with replaced(*changes):
            yield
    finally:
        driver.__dict__["_obj"] = before
