"""Lists the GPU architectures for which a library has code: walks the headers of its fat binaries, reads no code.

NVIDIA publishes how fat binaries are found (fatbinary_section.h in the CUDA toolkit) but not their contents; the fields
were derived from files built with nvcc 13.0 and from wheels built with CUDA 12.1 to 13.0, and compared with cuobjdump's
listing. AMD's bundle: https://clang.llvm.org/docs/ClangOffloadBundler.html
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

from attn_doctor.quick_dataclasses import dataclass

from .reader import ElfFile, Section
from .unreadable import CannotRead, Unreadable

_MAGIC = b"\x50\xed\x55\xba"
_FATBIN = struct.Struct("<4sHHQ")
#: kind, -, header size, payload size, -, -, -, architecture, -, flags
_ENTRY = struct.Struct("<HHIQIIIIQQ")

_KINDS = {1: "compute", 2: "sm", 8: "lto"}
#: sm_90a, sm_100f: the same bits for PTX and machine code, compressed or not, from CUDA 12.4 (xformers 0.0.28) on.
_ARCHITECTURE_SPECIFIC, _FAMILY_SPECIFIC = 1 << 20, 1 << 21

_NVIDIA_SECTIONS = frozenset({".nv_fatbin", "__nv_relfatbin"})
_AMD_SECTION = ".hip_fatbin"
_BUNDLE_MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_BUNDLE_MAGIC = b"CCOB"
_BUNDLE_ALIGNMENT = 4096
_TARGET = re.compile(r"-(gfx[0-9a-z-]+?)(?::.*)?$")

#: Most headers read in one file. libtorch_cuda.so, the largest known, has some tens of thousands.
_MOST_HEADERS = 1_000_000
_WIDEST_PADDING = 1 << 16
_MOST_GAPS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCode:
    """GPU code by architecture; each tuple is sorted, without duplicates."""

    sass: tuple[str, ...]
    """Machine code: sm_80, sm_90a, sm_100f."""
    ptx: tuple[str, ...]
    """Compiled by the driver when loaded: compute_90, compute_90a."""
    lto: tuple[str, ...]
    """Link-time intermediate code: lto_80. No driver loads it without nvJitLink."""
    amd: tuple[str, ...]
    """AMD targets without their features: gfx90a."""
    gaps: tuple[str, ...]
    """Parts that could not be read; any of them may contain an architecture that is not listed."""

    @property
    def all(self) -> tuple[str, ...]:
        """All architectures listed, machine code first."""
        return (*self.sass, *self.ptx, *self.lto, *self.amd)


def gpu_code(path: Path) -> GpuCode | Unreadable:
    """The GPU code in a library; empty when it has none. Never raises."""
    try:
        with ElfFile(str(path)) as elf:
            elf.expect_random_reads()
            walk = _Walk(elf)
            sections = list(elf.sections())
            if not sections:
                walk.gap("the section table was stripped")
            for section in sections:
                if section.name in _NVIDIA_SECTIONS:
                    walk.nvidia(section)
                elif section.name == _AMD_SECTION:
                    walk.amd(section)
    except CannotRead as problem:
        return problem.about(path)
    return GpuCode(
        sass=_ordered(walk.found["sm"]),
        ptx=_ordered(walk.found["compute"]),
        lto=_ordered(walk.found["lto"]),
        amd=_ordered(walk.found["gfx"]),
        gaps=tuple(walk.gaps),
    )


class _Walk:
    """Walks from header to header and collects architectures; records a gap when it cannot continue in a section."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self._left = _MOST_HEADERS
        self.found: dict[str, set[str]] = {"sm": set(), "compute": set(), "lto": set(), "gfx": set()}
        self.gaps: dict[str, None] = {}

    def gap(self, what: str) -> None:
        """Records an unreadable part; the number is limited, since a corrupt section may have any number of them."""
        if len(self.gaps) < _MOST_GAPS:
            self.gaps[what] = None

    def nvidia(self, section: Section) -> None:
        """Reads fat binaries, which follow one another with zeroes in between."""
        at, end = section.offset, section.offset + section.size
        if end > self._elf.size:
            self.gap(f"{section.name}: the file ends inside")
            end = self._elf.size
        while self._may_read_on(section):
            at = self._behind_padding(at, end)
            if at >= end:
                return
            if at + _FATBIN.size > end:
                self.gap(f"{section.name}: a fat binary goes beyond its end")
                return
            magic, version, header, size = _FATBIN.unpack(self._elf.exactly(at, _FATBIN.size, "a fat binary"))
            if magic != _MAGIC or version != 1 or header < _FATBIN.size:
                self.gap(f"{section.name}: no fat binary that is known where one should be")
                return
            self._entries(section, at + header, min(at + header + size, end))
            at += header + size
            if at > end:
                self.gap(f"{section.name}: a fat binary goes beyond its end")
                return

    def _entries(self, section: Section, at: int, end: int) -> None:
        while at + _ENTRY.size <= end and self._may_read_on(section):
            record = self._elf.exactly(at, _ENTRY.size, "a fat binary's entry")
            kind, _, header, size, _, _, _, architecture, _, flags = _ENTRY.unpack(record)
            word = _KINDS.get(kind)
            if header < _ENTRY.size or at + header + size > end:
                self.gap(f"{section.name}: an entry goes beyond its fat binary's end")
                return
            if word is None or not 10 <= architecture < 1000:
                self.gap(f"{section.name}: an entry of unknown kind {kind} for {architecture}")
            else:
                suffix = "a" if flags & _ARCHITECTURE_SPECIFIC else "f" if flags & _FAMILY_SPECIFIC else ""
                self.found[word].add(f"{word}_{architecture}{suffix}")
            at += header + size
        if at < end:
            self.gap(f"{section.name}: an entry goes beyond its fat binary's end")

    def amd(self, section: Section) -> None:
        """Reads offload bundles, each on a page of its own."""
        at, end = section.offset, min(section.offset + section.size, self._elf.size)
        while at < end and self._may_read_on(section):
            head = self._elf.some(at, 32)
            if head.startswith(_COMPRESSED_BUNDLE_MAGIC):
                self.gap(f"{section.name}: compressed, its targets cannot be listed")
                return
            if not head.startswith(_BUNDLE_MAGIC) or len(head) < 32:
                self.gap(f"{section.name}: no offload bundle where one should be")
                return
            (count,) = struct.unpack_from("<Q", head, len(_BUNDLE_MAGIC))
            entry = last = at + 32
            while count and self._may_read_on(section):
                offset, size, length = struct.unpack("<QQQ", self._elf.exactly(entry, 24, "an offload bundle"))
                name = self._elf.some(entry + 24, min(length, 256)).decode("ascii", "backslashreplace")
                target = _TARGET.search(name)
                if target is not None and size:
                    self.found["gfx"].add(target[1])
                entry += 24 + length
                last = max(last, entry, at + offset + size)
                count -= 1
            at = section.offset + -(-(last - section.offset) // _BUNDLE_ALIGNMENT) * _BUNDLE_ALIGNMENT

    def _may_read_on(self, section: Section) -> bool:
        self._left -= 1
        if self._left == 0:
            self.gap(f"{section.name}: more than {_MOST_HEADERS} headers")
        return self._left > 0

    def _behind_padding(self, at: int, end: int) -> int:
        limit = min(end, at + _WIDEST_PADDING)
        while at < limit:
            chunk = self._elf.some(at, min(256, limit - at))
            padding = len(chunk) - len(chunk.lstrip(b"\0"))
            if padding < len(chunk) or not chunk:
                return at + padding
            at += padding
        return at


def _ordered(names: set[str]) -> tuple[str, ...]:
    def key(name: str) -> tuple[int, str]:
        digits = re.search(r"_(\d+)", name)
        return (int(digits[1]) if digits else 0, name)

    return tuple(sorted(names, key=key))
