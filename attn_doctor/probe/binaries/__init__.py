"""Examines compiled extensions as files: would they load with this torch, and on which GPUs would they run?

    with LoaderView(torch_lib=..., interpreter=..., site_packages=..., environment=...) as view:
        result = examine_extension(path, view)        # Extension | Unreadable
        code = gpu_code(path)               # GpuCode | Unreadable
        others = shadowed_libraries(view)   # tuple of ShadowedLibrary
        libstdcxx = offered_glibcxx(view)   # Libstdcxx | Unreadable
    abi = torch_abi(torch_lib)              # StringAbi | Unreadable | None

Pure functions over paths: nothing is imported, run or written, and no exception leaves this package. For 64-bit
little-endian Linux; any other file is Unreadable.
"""

from .gpu_code import GpuCode, gpu_code
from .loader import LoaderView
from .lone_library import LoneLibrary, examine_lone, exported
from .mangled import StringAbi
from .process import MissingLibrary
from .search import Found
from .shadowing import ShadowedLibrary, shadowed_libraries
from .torch_abi import torch_abi
from .unreadable import Reason, Unreadable
from .versions import Libstdcxx, MissingVersion, VersionNeed, offered_glibcxx
from .would_load import CudaLibrary, Extension, NeededLibrary, examine_extension

__all__ = [
    "CudaLibrary",
    "Extension",
    "Found",
    "GpuCode",
    "Libstdcxx",
    "LoaderView",
    "LoneLibrary",
    "MissingLibrary",
    "MissingVersion",
    "NeededLibrary",
    "Reason",
    "ShadowedLibrary",
    "StringAbi",
    "Unreadable",
    "VersionNeed",
    "examine_extension",
    "examine_lone",
    "exported",
    "gpu_code",
    "offered_glibcxx",
    "shadowed_libraries",
    "torch_abi",
]
