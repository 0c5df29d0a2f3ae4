"""Assigns an undefined symbol to its library by name: Python's, torch's, a CUDA library's, or unknown.

judgement.py looks up where the symbol really is. The families are the libraries that attention packages link.
"""

from __future__ import annotations

import re

from attn_doctor.model.libraries import libraries

from .mangled import qualified_name

_PYTHON = re.compile(rb"_?Py[A-Z_]")

_TORCH_NAMESPACES = frozenset({b"at", b"c10", b"c10d", b"caffe2", b"torch", b"c10_cuda"})
#: Namespaces in `torch` that are torch's own; other projects use that namespace, too (torch::executor).
_IN_TORCH = frozenset(
    b"CppFunction Library aot_inductor autograd class_ csrc cuda data detail distributed dynamo impl "
    b"inductor jit lazy monitor nn optim profiler python serialize stable utils".split()
)
#: Plain C names: the stable ABI (`torch_call_dispatcher`), AOTInductor's shims, and the Python binding.
_TORCH_C = re.compile(rb"aoti_torch_|torch_|AOTInductor|aoti_|_?THP[A-Z]|THPVariable")
#: Templates of other namespaces (pybind11's caster of at::Tensor): those over torch's types are exported by torch.
_ON_TORCH_TYPES = re.compile(rb"N(?:2at|3c10|5torch)[0-9]")
_LENDERS = frozenset({b"std", b"pybind11"})

#: Such a name exists only in a CUDA (or HIP) build of torch, or moves between libraries from release to release.
_GPU_PART = re.compile(rb"cuda|cudnn|cublas|cusparse|cusolver|nccl|nvrtc|nvshmem|hip|miopen|rocblas|THC", re.IGNORECASE)

#: First match wins. Library names without version: `libcudart.so.12`, and auditwheel's `libcudart.41118559.so.12`.
_FAMILIES: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern), library)
    for pattern, library in (
        (rb"_*cudaL?[A-Z]|__cudart", "libcudart"),
        (rb"cudnn", "libcudnn"),
        (rb"cublasLt", "libcublasLt"),
        (rb"cublas", "libcublas"),
        (rb"cusparseLt", "libcusparseLt"),
        (rb"cusparse", "libcusparse"),
        (rb"cusolver", "libcusolver"),
        (rb"cufft", "libcufft"),
        (rb"curand", "libcurand"),
        (rb"nvrtc", "libnvrtc"),
        (rb"_*nvJitLink", "libnvJitLink"),
        (rb"nvjpeg", "libnvjpeg"),
        (rb"nvshmem", "libnvshmem_host"),
        (rb"cupti", "libcupti"),
        (rb"p?nccl[A-Z]", "libnccl"),
        (rb"nvml[A-Z]", "libnvidia-ml"),
        (rb"cu[A-Z]", "libcuda"),
        *((prefix.encode(), library) for one in libraries() for prefix, library in one.symbols),
        (rb"GOMP_|omp_", "libgomp"),
        (rb"hip[A-Z]|__hip", "libamdhip64"),
    )
)


def is_pythons(symbol: bytes) -> bool:
    """True for a symbol of the Python C API, which the interpreter exports."""
    return _PYTHON.match(symbol) is not None


def is_torchs(symbol: bytes) -> bool:
    """True when only torch's libraries could export it."""
    if not symbol.startswith(b"_Z"):
        return _TORCH_C.match(symbol) is not None
    parts = qualified_name(symbol)
    if not parts:
        return False
    if parts[0] in _TORCH_NAMESPACES:
        return True
    if parts[0] in _LENDERS:
        return _ON_TORCH_TYPES.search(symbol) is not None
    return len(parts) == 1 and _TORCH_C.match(parts[0]) is not None


def is_surely_torchs(symbol: bytes) -> bool:
    """True when it certainly belongs to torch, even if a library of another project is missing."""
    parts = qualified_name(symbol)
    return parts[:1] != (b"torch",) or (len(parts) > 1 and parts[1] in _IN_TORCH)


def may_be_gpu_part(symbol: bytes) -> bool:
    """True for a torch symbol that may be in libtorch_cuda or libc10_cuda instead of the libraries that every torch
    has.
    """
    parts = qualified_name(symbol) or (symbol,)
    return parts[:2] == (b"at", b"native") or any(_GPU_PART.search(part) for part in parts)


def family(symbol: bytes) -> str | None:
    """The library indicated by a symbol's prefix (`libnccl` for ncclCommInitAll), or None."""
    for pattern, library in _FAMILIES:
        if pattern.match(symbol):
            return library
    return None


def is_a_family(library: str) -> bool:
    """True when `family` can return this library (by its stem)."""
    return any(library == known for _, known in _FAMILIES)


def stem(library: str) -> str:
    """A library's name without versions and hashes: `libcudart` for `libcudart.41118559.so.12`."""
    return library.partition(".")[0]
