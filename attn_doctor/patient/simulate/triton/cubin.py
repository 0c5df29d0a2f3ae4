"""Reads registers and stack of the kernels in a cubin from the ELF file itself.

`cuobjdump --dump-resource-usage` gives the same numbers, but not every Triton wheel contains it, and no Triton keeps
the output of `ptxas -v`. Both numbers are in records of the section `.nv.info`: EIATTR_REGCOUNT, and EIATTR_FRAME_SIZE
for the stack of a thread. Their format was derived from cubins of Triton 2.1 to 3.9 for 7.5 to 12.1, and every number
was compared with cuobjdump's. The register count in the upper byte of .text's sh_info, which other readers use, is 0
from 9.0 on.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import Dict, List, Optional, Tuple

_EIFMT_SVAL = 0x04
_EIATTR_FRAME_SIZE = 0x11
_EIATTR_REGCOUNT = 0x2F


@dataclasses.dataclass(frozen=True)
class Resources:
    """Resources that one kernel needs per thread."""

    registers: int
    stack_bytes: int
    """Local memory per thread: Triton's kernels have no arrays of their own, so these are spilled registers."""


def resources(cubin: bytes) -> Optional[Dict[str, Resources]]:
    """Kernel name -> Resources; None when this is not a readable 64-bit little-endian ELF file."""
    try:
        return _read(cubin)
    except (struct.error, IndexError, ValueError, UnicodeDecodeError):
        return None


def _read(cubin: bytes) -> Optional[Dict[str, Resources]]:
    if cubin[:6] != b"\x7fELF\x02\x01":
        return None
    offset = struct.unpack_from("<Q", cubin, 0x28)[0]
    size, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, offset + number * size) for number in range(count)]
    names_at = headers[names_index][4]

    def text(at: int) -> str:
        return cubin[at : cubin.index(b"\0", at)].decode()

    named: List[Tuple[str, Tuple[int, ...]]] = [(text(names_at + header[0]), header) for header in headers]
    symbols: Dict[int, str] = {}
    for _, header in named:
        if header[1] == 2:  # SHT_SYMTAB
            strings_at = headers[header[6]][4]
            for number in range(header[5] // 24):
                symbols[number] = text(strings_at + struct.unpack_from("<I", cubin, header[4] + number * 24)[0])
    registers: Dict[str, int] = {}
    frames: Dict[str, int] = {}
    for name, header in named:
        if name == ".nv.info":
            for attribute, symbol, value in _records(cubin[header[4] : header[4] + header[5]]):
                if attribute == _EIATTR_FRAME_SIZE:
                    frames[symbols.get(symbol, "")] = value
                elif attribute == _EIATTR_REGCOUNT:
                    registers[symbols.get(symbol, "")] = value
    return {
        kernel: Resources(registers=count, stack_bytes=frames.get(kernel, 0)) for kernel, count in registers.items()
    }


def _records(section: bytes) -> List[Tuple[int, int, int]]:
    """(attribute, symbol number, value) of the records that contain a symbol and a 32-bit value."""
    found, at = [], 0
    while at + 4 <= len(section):
        form, attribute, length = struct.unpack_from("<BBH", section, at)
        at += 4
        if form != _EIFMT_SVAL:
            continue  # its value is in the two bytes already read
        if length >= 8:
            found.append((attribute,) + struct.unpack_from("<II", section, at))
        at += length
    return found
