"""Compiled extensions, examined as files: would they load beside this torch, and which GPUs have they code for?

    with LoaderView(torch_lib=..., interpreter=..., site_packages=..., environment=...) as view:
        result = examine(path, view)        # Extension | Unreadable
        code = gpu_code(path)               # GpuCode | Unreadable
        libstdcxx = offered_glibcxx(view)   # Libstdcxx | Unreadable
    abi = torch_abi(torch_lib)              # StringAbi | Unreadable | None

Pure functions over paths: nothing is imported, run or written, and no exception leaves. For 64-bit
little-endian Linux; anything else is Unreadable.
"""

from .examine import CudaLibrary, Extension, NeededLibrary, examine
from .gpu_code import GpuCode, gpu_code
from .loader import LoaderView, MissingLibrary
from .mangled import StringAbi
from .search import Found
from .torch_abi import torch_abi
from .unreadable import Reason, Unreadable
from .versions import Libstdcxx, MissingVersion, VersionNeed, offered_glibcxx

__all__ = [
    "CudaLibrary",
    "Extension",
    "Found",
    "GpuCode",
    "Libstdcxx",
    "LoaderView",
    "MissingLibrary",
    "MissingVersion",
    "NeededLibrary",
    "Reason",
    "StringAbi",
    "Unreadable",
    "VersionNeed",
    "examine",
    "gpu_code",
    "offered_glibcxx",
    "torch_abi",
]
