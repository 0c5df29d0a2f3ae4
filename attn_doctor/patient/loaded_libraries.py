"""The CUDA libraries that this process has mapped, by the kernel's own list, and their versions as they say themselves.

Elsewhere: whose file each is, and which other copies there are (the doctor's side).
"""

from __future__ import annotations

import ctypes
import os
import re
from typing import Callable, Dict, List, Optional, TypedDict

#: A family is what has to be of one release. The first group is there for parts that are loaded by the main library.
FAMILIES: Dict[str, str] = {
    "cudnn": r"libcudnn(_\w+)?\.so(\.\d+)*",
    "cublas": r"libcublas(Lt)?\.so(\.\d+)*",
    "nvrtc": r"libnvrtc(-builtins)?\.so(\.\d+)*",
    "nccl": r"libnccl()\.so(\.\d+)*",
}


class LoadedFile(TypedDict):
    """A mapped file."""

    family: str
    main: bool
    """The library itself, not a part that it loads."""
    path: str
    """As the kernel resolves it: without links."""


class AskedVersion(TypedDict, total=False):
    """What a library says of its version; one of both is there."""

    version: str
    reason: str


def mapped(maps: str = "/proc/self/maps") -> Optional[List[LoadedFile]]:
    """The files of these families, in the order of their addresses; None where the kernel does not list them."""
    try:
        with open(maps, encoding="utf-8", errors="surrogateescape") as lines:
            # Address, rights, offset, device, inode, path: the path may hold blanks.
            fields = [line.rstrip("\n").split(None, 5) for line in lines]
    except OSError:
        return None
    paths = dict.fromkeys(one[5] for one in fields if len(one) == 6 and one[5].startswith("/"))
    found: List[LoadedFile] = []
    for path in paths:
        for family, pattern in FAMILIES.items():
            match = re.fullmatch(pattern, os.path.basename(path))
            if match:
                found.append({"family": family, "main": not match.group(1), "path": path})
    return found


def version(family: str, path: str) -> AskedVersion:
    """Asks the library at `path`. For a child of its own: a library that misses its parts ends the process."""
    try:
        return {"version": _ASK[family](ctypes.CDLL(path))}
    except (OSError, AttributeError, ValueError) as error:
        return {"reason": str(error).strip() or type(error).__name__}


def in_parts(number: int, *factors: int) -> str:
    """The version in a number. Raises ValueError for one that cannot be: 0 is what a stand-in says."""
    if number <= 0:
        raise ValueError("it says that its version is {}".format(number))
    parts = []
    for factor in factors:
        parts.append(number // factor)
        number %= factor
    return ".".join(str(part) for part in (*parts, number))


def _cudnn(library: ctypes.CDLL) -> str:
    """cudnnGetVersion: 8907 is 8.9.7; from 9 on 91900 is 9.19.0."""
    library.cudnnGetVersion.restype = ctypes.c_size_t
    number = int(library.cudnnGetVersion())
    return in_parts(number, 10000, 100) if number >= 90000 else in_parts(number, 1000, 100)


def _cublas(library: ctypes.CDLL) -> str:
    """cublasGetProperty, which needs no handle: 0, 1, 2 are major, minor, patch."""
    parts = []
    for property_ in range(3):
        value = ctypes.c_int(-1)
        status = library.cublasGetProperty(property_, ctypes.byref(value))
        if status != 0 or value.value < 0:
            raise ValueError("cublasGetProperty returns status {}".format(status))
        parts.append(str(value.value))
    return ".".join(parts)


def _nvrtc(library: ctypes.CDLL) -> str:
    major, minor = ctypes.c_int(-1), ctypes.c_int(-1)
    status = library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if status != 0 or major.value < 0 or minor.value < 0:
        raise ValueError("nvrtcVersion returns status {}".format(status))
    return "{}.{}".format(major.value, minor.value)


def _nccl(library: ctypes.CDLL) -> str:
    """ncclGetVersion: 22703 is 2.27.3; before 2.9 2804 is 2.8.4."""
    number = ctypes.c_int(0)
    status = library.ncclGetVersion(ctypes.byref(number))
    if status != 0:
        raise ValueError("ncclGetVersion returns status {}".format(status))
    return in_parts(number.value, 10000, 100) if number.value >= 10000 else in_parts(number.value, 1000, 100)


_ASK: Dict[str, Callable[[ctypes.CDLL], str]] = {
    "cudnn": _cudnn,
    "cublas": _cublas,
    "nvrtc": _nvrtc,
    "nccl": _nccl,
}
