"""Addresses without memory: a mapping of many terabytes to which nothing is written has no pages."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from typing import Any, List, Sequence

import torch

_SIZES = (1 << 45, 1 << 42, 1 << 39, 1 << 36, 1 << 33, 1 << 30)
"""In bytes, the largest first: a limit on the address space (ulimit -v) allows less."""
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_ALIGNED = 512


class NoRoom(MemoryError):
    """This process cannot reserve the addresses: a limit on its address space, or strict overcommit."""


class Memory:
    """Creates storages that consist only of addresses. Reading them gives zeros; writing takes memory.

    Addresses are reused when the end is reached: two storages may then share some.
    """

    def __init__(self) -> None:
        self._mapping = _mapped()
        self._size = len(self._mapping)
        self._next = 0
        self._first = ctypes.addressof(ctypes.c_char.from_buffer(self._mapping))
        self._last = self._first + self._size

    def holds(self, address: int) -> bool:
        return self._first <= address < self._last

    def tensor(self, shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A hollow tensor of one element or more. Raises NoRoom."""
        reach = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides))
        nbytes = reach * dtype.itemsize
        if self._next + nbytes > self._size:
            self._next = 0
            if nbytes > self._size:
                raise NoRoom("a tensor of {} bytes does not fit into {} bytes".format(nbytes, self._size))
        taken: Any = torch.frombuffer(self._mapping, dtype=torch.uint8, count=nbytes, offset=self._next)
        self._next += -(-nbytes // _ALIGNED) * _ALIGNED
        return torch.empty(0, dtype=dtype).set_(taken.untyped_storage(), 0, tuple(shape), tuple(strides))


_SHARED: List[Memory] = []


def shared() -> Memory:
    """The only Memory of this process: several would leave no addresses for others. Raises NoRoom."""
    if not _SHARED:
        _SHARED.append(Memory())
    return _SHARED[0]


def _mapped() -> mmap.mmap:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    for size in _SIZES:
        with contextlib.suppress(OSError, OverflowError):
            return mmap.mmap(-1, size, flags=flags)
    raise NoRoom("no {} bytes of address space are to be had".format(_SIZES[-1]))
