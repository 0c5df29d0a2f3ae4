"""Which GPUs a library carries code for: walks the headers of its fat binaries, reads no payload.

NVIDIA publishes how fat binaries are found (fatbinary_section.h in the CUDA toolkit) but not what is in them; the
fields were read off files built with nvcc 13.0 and off wheels built with CUDA 12.1 to 13.0, and compared with
cuobjdump's listing. AMD's bundle: https://clang.llvm.org/docs/ClangOffloadBundler.html
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .reader import ElfFile, Section
from .unreadable import CannotRead, Unreadable

_MAGIC = b"\x50\xed\x55\xba"
_FATBIN = struct.Struct("<4sHHQ")
#: kind, -, header size, payload size, -, -, -, architecture, -, flags
_ENTRY = struct.Struct("<HHIQIIIIQQ")

_KINDS = {1: "compute", 2: "sm", 8: "lto"}
#: sm_90a, sm_100f: the same bits on PTX and machine code, compressed or not, from CUDA 12.4 (xformers 0.0.28) on.
_ARCHITECTURE_SPECIFIC, _FAMILY_SPECIFIC = 1 << 20, 1 << 21

_NVIDIA_SECTIONS = frozenset({".nv_fatbin", "__nv_relfatbin"})
_AMD_SECTION = ".hip_fatbin"
_BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_BUNDLE_MAGIC = b"CCOB"
_BUNDLE_ALIGNMENT = 4096
_TARGET = re.compile(r"-(gfx[0-9a-z-]+?)(?::.*)?$")

_MOST_FATBINS = 200_000
_MOST_ENTRIES = 1000
_WIDEST_GAP = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCode:
    """GPU code by what it runs on; each tuple sorted, without repeats."""

    sass: tuple[str, ...]
    """Machine code: sm_80, sm_90a, sm_100f."""
    ptx: tuple[str, ...]
    """Compiled by the driver when loaded: compute_90, compute_90a."""
    lto: tuple[str, ...]
    """Link-time intermediate code: lto_80. No driver loads it without nvJitLink."""
    amd: tuple[str, ...]
    """AMD targets without their features: gfx90a."""
    gaps: tuple[str, ...]
    """What could not be read: while there are any, an architecture that is not listed may still be in it."""

    @property
    def all(self) -> tuple[str, ...]:
        """Everything that is listed, machine code first."""
        return (*self.sass, *self.ptx, *self.lto, *self.amd)


def gpu_code(path: Path) -> GpuCode | Unreadable:
    """The GPU code in a library; empty where it holds none. Never raises."""
    found: dict[str, set[str]] = {"sm": set(), "compute": set(), "lto": set(), "gfx": set()}
    gaps: list[str] = []
    try:
        with ElfFile(str(path)) as elf:
            elf.expect_random_reads()
            sections = list(elf.sections())
            if not sections:
                gaps.append("the section table was stripped")
            for section in sections:
                if section.name in _NVIDIA_SECTIONS:
                    walk = _nvidia(elf, section, gaps)
                elif section.name == _AMD_SECTION:
                    walk = _amd(elf, section, gaps)
                else:
                    continue
                for kind, name in walk:
                    found[kind].add(name)
    except CannotRead as problem:
        return problem.about(path)
    return GpuCode(
        sass=_ordered(found["sm"]),
        ptx=_ordered(found["compute"]),
        lto=_ordered(found["lto"]),
        amd=_ordered(found["gfx"]),
        gaps=tuple(dict.fromkeys(gaps)),
    )


def _nvidia(elf: ElfFile, section: Section, gaps: list[str]) -> Iterator[tuple[str, str]]:
    at, end = section.offset, section.offset + section.size
    if end > elf.size:
        gaps.append(f"{section.name}: the file ends inside")
        end = elf.size
    for _ in range(_MOST_FATBINS):
        at = _next(elf, at, end, _MAGIC)
        if at < 0:
            gaps.append(f"{section.name}: no fat binary where one should be")
            return
        if at + _FATBIN.size > end:
            return
        _, version, header, size = _FATBIN.unpack(elf.exactly(at, _FATBIN.size, "a fat binary"))
        if version != 1 or header < _FATBIN.size:
            gaps.append(f"{section.name}: fat binary of unknown version {version}")
            return
        body_end = at + header + size
        if body_end > end:
            gaps.append(f"{section.name}: a fat binary goes beyond its end")
        yield from _entries(elf, at + header, min(body_end, end), gaps)
        if body_end > end:
            return
        at = body_end
    gaps.append(f"{section.name}: more than {_MOST_FATBINS} fat binaries")


def _entries(elf: ElfFile, at: int, end: int, gaps: list[str]) -> Iterator[tuple[str, str]]:
    for _ in range(_MOST_ENTRIES):
        if at + _ENTRY.size > end:
            return
        kind, _, header, size, _, _, _, architecture, _, flags = _ENTRY.unpack(
            elf.exactly(at, _ENTRY.size, "a fat binary entry")
        )
        if header < _ENTRY.size or at + header + size > end:
            gaps.append("a fat binary entry goes beyond its end")
            return
        word = _KINDS.get(kind)
        if word is None or not 10 <= architecture < 1000:
            gaps.append(f"a fat binary entry of unknown kind {kind} for architecture {architecture}")
        else:
            suffix = "a" if flags & _ARCHITECTURE_SPECIFIC else "f" if flags & _FAMILY_SPECIFIC else ""
            yield word, f"{word}_{architecture}{suffix}"
        at += header + size
    gaps.append(f"more than {_MOST_ENTRIES} entries in one fat binary")


def _amd(elf: ElfFile, section: Section, gaps: list[str]) -> Iterator[tuple[str, str]]:
    at, end = section.offset, min(section.offset + section.size, elf.size)
    for _ in range(_MOST_FATBINS):
        head = elf.some(at, 32)
        if head.startswith(_COMPRESSED_BUNDLE_MAGIC):
            gaps.append(f"{section.name}: compressed, its targets cannot be listed")
            return
        if not head.startswith(_BUNDLE_MAGIC):
            gaps.append(f"{section.name}: no offload bundle where one should be")
            return
        last = at
        (count,) = struct.unpack_from("<Q", head, len(_BUNDLE_MAGIC)) if len(head) == 32 else (0,)
        entry = at + 32
        for _ in range(min(count, _MOST_ENTRIES)):
            offset, size, length = struct.unpack("<QQQ", elf.exactly(entry, 24, "an offload bundle"))
            name = elf.some(entry + 24, min(length, 256)).decode("ascii", "backslashreplace")
            target = _TARGET.search(name)
            if target is not None and size:
                yield "gfx", target[1]
            last = max(last, at + offset + size)
            entry += 24 + length
        at = section.offset + -(-(max(last, entry) - section.offset) // _BUNDLE_ALIGNMENT) * _BUNDLE_ALIGNMENT
        if at + len(_BUNDLE_MAGIC) > end:
            return
    gaps.append(f"{section.name}: more than {_MOST_FATBINS} bundles")


def _next(elf: ElfFile, at: int, end: int, magic: bytes) -> int:
    """The next fat binary behind padding; `end` when only zeroes follow, -1 when something else does."""
    limit = min(end, at + _WIDEST_GAP)
    while at < limit:
        if elf.some(at, len(magic)) == magic:
            return at
        chunk = elf.some(at, min(4096, limit - at))
        padding = len(chunk) - len(chunk.lstrip(b"\0"))
        if not padding or not chunk:
            return -1
        at += padding
    return end if at >= end else -1


def _ordered(names: set[str]) -> tuple[str, ...]:
    def key(name: str) -> tuple[int, str]:
        digits = re.search(r"_(\d+)", name)
        return (int(digits[1]) if digits else 0, name)

    return tuple(sorted(names, key=key))
