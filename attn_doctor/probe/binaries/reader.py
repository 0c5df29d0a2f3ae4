"""Reads one ELF file: headers, dynamic table, strings, sections, build id. Resolves no symbols or dependencies.

Uses positioned reads instead of a memory map: truncating a mapped library (an upgrade on a network file system) kills
the reader with SIGBUS, while a short read is only an error.

pyelftools was measured and rejected (`bench/elf_reader.py`, torch 2.13): its import takes as long as that of this whole
package, it lists an extension's undefined symbols 100 to 140 times slower, because it must read the whole table, and
looks up names in libtorch_cpu.so 10 to 14 times slower.

No count or size in the file is trusted; each is compared with the file's length or a bound before it is used, so that a
corrupt file costs neither memory nor time.

Format: https://gabi.xinuos.com/ and https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from .unreadable import CannotRead, Reason

_IDENT = struct.Struct("<4sBB")
_HEADER = struct.Struct("<HHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_DYNAMIC = struct.Struct("<qQ")
_NOTE = struct.Struct("<III")

_EXECUTABLE, _SHARED = 2, 3
_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_NT_GNU_BUILD_ID = 3

#: e_machine of the processors in GPU nodes, and of others whose files are found there by mistake.
MACHINES: Mapping[int, str] = {
    3: "i386",
    21: "ppc64",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv64",
    258: "loongarch64",
}

#: First bytes of files that are named .so and are not ELF.
_OTHER_MAGICS: tuple[tuple[bytes, str], ...] = (
    (b"\xcf\xfa\xed\xfe", "a Mach-O file (macOS)"),
    (b"\xce\xfa\xed\xfe", "a Mach-O file (macOS)"),
    (b"\xca\xfe\xba\xbe", "a Mach-O file (macOS)"),
    (b"MZ", "a Windows DLL"),
    (b"!<arch>", "a static archive"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself"),
    (b"/* GNU ld script", "a linker script"),
    (b"INPUT", "a linker script"),
    (b"GROUP", "a linker script"),
    (b"PK\x03\x04", "a zip archive"),
)

# Bounds far above any real library: torch's largest have about 40 sections and 40 dynamic entries.
_MOST_SEGMENTS = 1024
_MOST_SECTIONS = 65536
_MOST_DYNAMIC = 1 << 16
_LONGEST_STRING = 1 << 16
_LARGEST_NOTE = 1 << 16
LARGEST_TABLE = 64 << 20
"""The largest table read in one piece, in bytes."""


class Section(NamedTuple):
    """A named part of the file."""

    name: str
    offset: int
    size: int


class ElfFile:
    """An open 64-bit little-endian ELF file, shared library or executable. Close it, or use it in `with`."""

    __slots__ = (
        "_descriptor",
        "_dynamic_at",
        "_loads",
        "_notes",
        "_sections_at",
        "dynamic",
        "identity",
        "machine",
        "needed",
        "path",
        "rpath",
        "runpath",
        "size",
        "soname",
    )

    def __init__(self, path: str) -> None:
        """Opens the file. Raises CannotRead."""
        self._descriptor = -1
        self.path = path
        try:
            # O_NONBLOCK: open() would wait for ever for a FIFO of that name.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            status = os.fstat(self._descriptor)
        except OSError as error:
            self.close()
            raise _refusal(error) from error
        except ValueError as error:  # a NUL in the name
            raise CannotRead(Reason.MISSING, str(error)) from error
        try:
            if not stat.S_ISREG(status.st_mode):
                raise CannotRead(Reason.NOT_A_FILE)
            self.size = status.st_size
            self.identity = (status.st_dev, status.st_ino)
            self._read_header()
            self._read_dynamic()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the file; reading afterwards raises CannotRead."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> ElfFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    @property
    def machine_name(self) -> str:
        """The processor, as the kernel names it (x86_64, aarch64)."""
        return MACHINES.get(self.machine, f"machine {self.machine}")

    # Reading

    def some(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes at a file offset; fewer at the end of the file. Raises CannotRead."""
        if offset < 0 or offset >= self.size or size <= 0:
            return b""
        try:
            return os.pread(self._descriptor, min(size, self.size - offset), offset)
        except OSError as error:
            raise _refusal(error) from error

    def exactly(self, offset: int, size: int, what: str) -> bytes:
        """`size` bytes at a file offset. Raises CannotRead when the file has fewer, or size is absurd."""
        if size > LARGEST_TABLE:
            raise CannotRead.damaged(f"{what} of {size} bytes")
        data = self.some(offset, size)
        if len(data) != size:
            raise CannotRead.damaged(f"the file ends inside {what}")
        return data

    def expect_random_reads(self) -> None:
        """Turns off the kernel's read-ahead: headers are spread over a gigabyte."""
        try:
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        except (OSError, AttributeError):  # an optimisation; some file systems refuse, macOS has none
            return

    def offset_of(self, address: int, what: str) -> int:
        """File offset of a memory address. Raises CannotRead when no loaded segment contains it."""
        for start, offset, length in self._loads:
            if start <= address < start + length:
                return offset + (address - start)
        raise CannotRead.damaged(f"{what} lies outside the loaded segments")

    def text(self, offset: int) -> bytes:
        """The NUL-terminated string at a file offset. Raises CannotRead."""
        size = 256
        while True:
            data = self.some(offset, size)
            end = data.find(b"\0")
            if end >= 0:
                return data[:end]
            if len(data) < size or size >= _LONGEST_STRING:
                raise CannotRead.damaged("a string without an end")
            size *= 4

    # The tables

    def _read_header(self) -> None:
        head = self.some(0, 64)
        if len(head) < 64:
            raise CannotRead(*_what_else(head)) if head[:4] != b"\x7fELF" else CannotRead(Reason.EMPTY)
        magic, bits, order = _IDENT.unpack_from(head)
        if magic != b"\x7fELF":
            raise CannotRead(*_what_else(head))
        if bits != 2 or order != 1:
            raise CannotRead(Reason.OTHER_KIND, "32-bit" if bits == 1 else "big-endian" if order == 2 else "")
        kind, self.machine, _, _, at, sections_at, _, _, entry, count, section_entry, sections, names = (
            _HEADER.unpack_from(head, 16)
        )
        if kind not in (_EXECUTABLE, _SHARED):
            raise CannotRead(Reason.OTHER_KIND, "an object file" if kind == 1 else f"ELF type {kind}")
        if count and (entry != _SEGMENT.size or count > _MOST_SEGMENTS):
            raise CannotRead.damaged(f"{count} program headers of {entry} bytes")
        self._sections_at = (sections_at, section_entry, sections, names)
        self._loads: list[tuple[int, int, int]] = []
        self._notes: list[tuple[int, int]] = []
        self._dynamic_at = (0, 0)
        table = self.exactly(at, count * entry, "the program headers") if count else b""
        for segment, _, offset, address, _, length, _, _ in _SEGMENT.iter_unpack(table):
            if segment == _PT_LOAD:
                self._loads.append((address, offset, length))
            elif segment == _PT_DYNAMIC:
                self._dynamic_at = (offset, length)
            elif segment == _PT_NOTE:
                self._notes.append((offset, length))

    def _read_dynamic(self) -> None:
        self.dynamic: dict[int, int] = {}
        self.needed: tuple[str, ...] = ()
        self.soname = self.rpath = self.runpath = ""
        offset, length = self._dynamic_at
        if not length:
            return
        length -= length % _DYNAMIC.size
        if length > _MOST_DYNAMIC * _DYNAMIC.size:
            raise CannotRead.damaged(f"a dynamic table of {length} bytes")
        needed: list[int] = []
        for tag, value in _DYNAMIC.iter_unpack(self.exactly(offset, length, "the dynamic table")):
            if tag == 0:
                break
            if tag == Tag.NEEDED:
                needed.append(value)
            else:
                self.dynamic.setdefault(tag, value)
        if Tag.STRTAB not in self.dynamic:
            if needed:
                raise CannotRead.damaged("a dynamic table without strings")
            return
        strings = self.offset_of(self.dynamic[Tag.STRTAB], "the string table")

        def text_of(tag: int) -> str:
            return _decode(self.text(strings + self.dynamic[tag])) if tag in self.dynamic else ""

        self.needed = tuple(_decode(self.text(strings + name)) for name in needed)
        self.soname = text_of(Tag.SONAME)
        self.rpath = text_of(Tag.RPATH)
        self.runpath = text_of(Tag.RUNPATH)

    def sections(self) -> Iterator[Section]:
        """The named sections; none when the section table was stripped. Raises CannotRead."""
        at, entry, count, names = self._sections_at
        if not at:
            return
        if entry != _SECTION.size:
            raise CannotRead.damaged(f"section headers of {entry} bytes")
        # More sections than 16 bits can count: both numbers are in the first header.
        first = _SECTION.unpack(self.exactly(at, entry, "the first section header"))
        count = count or first[5]
        names = first[6] if names == 0xFFFF else names
        if count > _MOST_SECTIONS or names >= count:
            raise CannotRead.damaged(f"{count} sections, names in number {names}")
        headers = list(_SECTION.iter_unpack(self.exactly(at, count * entry, "the section headers")))
        name_table = self.some(headers[names][4], min(headers[names][5], 1 << 20))
        for name, kind, _, _, offset, size, *_ in headers:
            end = name_table.find(b"\0", name)
            held = 0 if kind == 8 else size  # SHT_NOBITS: a size in memory, nothing in the file
            yield Section(_decode(name_table[name : end if end >= 0 else name]), offset, held)

    def build_id(self) -> str | None:
        """NT_GNU_BUILD_ID in hexadecimal, or None when the linker wrote none. Raises CannotRead."""
        for offset, length in self._notes:
            data = self.some(offset, min(length, _LARGEST_NOTE))
            at = 0
            while at + _NOTE.size <= len(data):
                name_size, size, kind = _NOTE.unpack_from(data, at)
                body = at + _NOTE.size + (name_size + 3 & ~3)
                if kind == _NT_GNU_BUILD_ID and data[at + 12 : at + 16] == b"GNU\0":
                    return data[body : body + size].hex() or None
                at = body + (size + 3 & ~3)
        return None


class Tag:
    """Entries of the dynamic table that are used here."""

    NEEDED = 1
    HASH = 4
    STRTAB = 5
    SYMTAB = 6
    SONAME = 14
    RPATH = 15
    RUNPATH = 29
    GNU_HASH = 0x6FFFFEF5
    VERSYM = 0x6FFFFFF0
    VERDEF = 0x6FFFFFFC
    VERDEFNUM = 0x6FFFFFFD
    VERNEED = 0x6FFFFFFE
    VERNEEDNUM = 0x6FFFFFFF


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _refusal(error: OSError) -> CannotRead:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return CannotRead(Reason.MISSING)
    if isinstance(error, PermissionError):
        return CannotRead(Reason.NO_PERMISSION)
    if isinstance(error, IsADirectoryError):
        return CannotRead(Reason.NOT_A_FILE)
    return CannotRead(Reason.FAILED, error.strerror or str(error))


def _what_else(head: bytes) -> tuple[Reason, str]:
    if not head:
        return Reason.EMPTY, "zero bytes"
    for magic, meaning in _OTHER_MAGICS:
        if head.startswith(magic):
            return Reason.NOT_ELF, meaning
    if not any(head):
        return Reason.NOT_ELF, "starts with zeroes"  # an unfinished download on a sparse file
    if all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in head):
        return Reason.NOT_ELF, "a text file"
    return Reason.NOT_ELF, f"starts with {head[:4].hex(' ')}"
