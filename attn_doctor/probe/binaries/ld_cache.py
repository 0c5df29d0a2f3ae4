"""Parses ld.so.cache, ldconfig's list of the libraries in the system's folders, without running ldconfig.

Reads both formats: the old one (`ld.so-1.7.0`), the new one (`glibc-ld.so.cache1.1`), and the new after the old.
Source: glibc's sysdeps/generic/dl-cache.h, https://sourceware.org/git/?p=glibc.git
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_OLD_MAGIC = b"ld.so-1.7.0"
_NEW_MAGIC = b"glibc-ld.so.cache1.1"
_OLD_HEADER, _OLD_ENTRY = 16, struct.Struct("<iII")
_NEW_HEADER, _NEW_ENTRY = 48, struct.Struct("<iIIIQ")
_LARGEST = 32 << 20

#: ELF machine -> the second byte of the flags in its entries (FLAG_X8664_LIB64 and similar).
_FLAGS: Mapping[int, int] = {62: 0x0300, 183: 0x0A00, 21: 0x0500, 243: 0x1000}


def read_ld_cache(path: Path, machine: int) -> dict[str, tuple[str, ...]]:
    """Library name -> the files of that name for this ELF machine, best first.

    Empty when there is no cache or when it is damaged: the loader then uses its default folders, too.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST)
    except OSError:
        return {}
    at = 0
    entries: list[_Entry] = []
    try:
        if data.startswith(_OLD_MAGIC):
            (count,) = struct.unpack_from("<I", data, 12)
            strings = _OLD_HEADER + count * _OLD_ENTRY.size
            at = strings + 7 & ~7
            if not data.startswith(_NEW_MAGIC, at):
                entries = _entries(data, _OLD_ENTRY, _OLD_HEADER, count, strings)
        if data.startswith(_NEW_MAGIC, at):
            (count,) = struct.unpack_from("<I", data, at + len(_NEW_MAGIC))
            entries = _entries(data, _NEW_ENTRY, at + _NEW_HEADER, count, at)
    except struct.error:
        return {}
    wanted = _FLAGS.get(machine)
    found: dict[str, list[str]] = {}
    # Plain builds first: which of the others the loader takes depends on the processor's features, and they export the
    # same symbols.
    for entry in sorted(entries, key=lambda each: each.special):
        if wanted is None or entry.flags & 0xFF00 == wanted:
            found.setdefault(entry.name, []).append(entry.file)
    return {name: tuple(files) for name, files in found.items()}


class _Entry(NamedTuple):
    name: str
    file: str
    flags: int
    special: bool
    """Built for some processor features only."""


def _entries(data: bytes, record: struct.Struct, start: int, count: int, strings: int) -> list[_Entry]:
    """Parses the entries. Raises struct.error when the cache ends before the last entry."""
    end = start + count * record.size
    if end > len(data):
        raise struct.error("more entries than bytes")
    return [
        _Entry(_text(data, strings + name), _text(data, strings + file), flags, any(rest[1:]))
        for flags, name, file, *rest in record.iter_unpack(data[start:end])
    ]


def _text(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    return data[at : end if end >= 0 else at].decode("utf-8", "backslashreplace")
