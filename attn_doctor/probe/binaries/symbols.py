"""The symbols that a library imports and exports: `.gnu.hash` and DT_HASH look-ups, symbol versions.

A look-up reads a few words of the file. Only the undefined symbols of an extension are listed: they precede the hashed
ones, while listing all 75,000 names of libtorch_cpu.so would take seconds.

The hash function and the tables: https://flapenguin.me/elf-dt-gnu-hash and the LSB's chapter on symbol versioning.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from .reader import ElfFile, Tag
from .unreadable import CannotRead

_SYMBOL = struct.Struct("<IBBHQQ")
_VERSION_NEED = struct.Struct("<HHIII")
_VERSION_NEED_ONE = struct.Struct("<IHHII")
_VERSION_DEFINITION = struct.Struct("<HHHHIII")

_GLOBAL, _WEAK, _UNIQUE = 1, 2, 10
_HIDDEN = 0x8000
_BASE = 1

_ANY = (b"", "", False)

_LONGEST_CHAIN = 1 << 12
_MOST_VERSIONS = 1 << 14
_MOST_UNDEFINED = 1 << 20


class NeededSymbol(NamedTuple):
    """A symbol that a library needs from another one."""

    name: bytes
    version: bytes
    """Empty when any version will do."""
    source: str
    """The library that must have the version; empty without one."""


class NeededVersion(NamedTuple):
    """A symbol version that a library needs; without it the loader refuses to load the library."""

    version: str
    source: str
    weak: bool


def gnu_hash(name: bytes) -> int:
    """The hash of `.gnu.hash` (Bernstein's, times 33)."""
    value = 5381
    for byte in name:
        value = (value * 33 + byte) & 0xFFFFFFFF
    return value


def sysv_hash(name: bytes) -> int:
    """The hash of DT_HASH."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


class Symbols:
    """The dynamic symbols of one open file. Every method raises CannotRead on a damaged file."""

    __slots__ = (
        "_bloom",
        "_bloom_shift",
        "_buckets",
        "_chains",
        "_elf",
        "_first_hashed",
        "_names",
        "_needs",
        "_sysv",
        "_table",
        "_version_names",
        "_versions",
    )

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self._bloom: tuple[int, ...] = ()
        self._buckets: tuple[int, ...] = ()
        self._bloom_shift = self._chains = self._first_hashed = self._sysv = 0
        self._needs: dict[int, tuple[bytes, str, bool]] | None = None
        self._version_names: dict[int, bytes] | None = None
        dynamic = elf.dynamic
        if Tag.SYMTAB not in dynamic or Tag.STRTAB not in dynamic:
            self._table = self._names = self._versions = -1
            return
        self._table = elf.offset_of(dynamic[Tag.SYMTAB], "the symbol table")
        self._names = elf.offset_of(dynamic[Tag.STRTAB], "the string table")
        self._versions = -1
        if Tag.VERSYM in dynamic:
            self._versions = elf.offset_of(dynamic[Tag.VERSYM], "the symbol versions")
        if Tag.GNU_HASH in dynamic:
            self._read_gnu_hash(elf.offset_of(dynamic[Tag.GNU_HASH], "the hash table"))
        elif Tag.HASH in dynamic:
            self._sysv = elf.offset_of(dynamic[Tag.HASH], "the hash table")

    def _read_gnu_hash(self, at: int) -> None:
        count, self._first_hashed, words, self._bloom_shift = struct.unpack(
            "<IIII", self._elf.exactly(at, 16, "the hash table")
        )
        if not count or not words:
            raise CannotRead.damaged("a hash table without buckets")
        data = self._elf.exactly(at + 16, words * 8 + count * 4, "the hash table")
        self._bloom = struct.unpack_from(f"<{words}Q", data)
        self._buckets = struct.unpack_from(f"<{count}I", data, words * 8)
        self._chains = at + 16 + len(data)

    # Exports

    def exports(self, name: bytes, hashed: int, version: bytes = b"") -> bool:
        """True when the library exports this name, in this version if one is given. `hashed`: its gnu_hash."""
        if self._table < 0:
            return False
        if self._buckets:
            # Inlined, and first: rejects nearly all names that the library lacks without reading the file.
            word = self._bloom[(hashed >> 6) % len(self._bloom)]
            if not (word >> (hashed & 63)) & (word >> ((hashed >> self._bloom_shift) & 63)) & 1:
                return False
            return self._in_gnu_chain(name, hashed, version)
        return self._in_sysv_chain(name, version) if self._sysv else False

    def _in_gnu_chain(self, name: bytes, hashed: int, version: bytes) -> bool:
        index = self._buckets[hashed % len(self._buckets)]
        if index < self._first_hashed:
            return False
        walked = 0
        while walked < _LONGEST_CHAIN:
            block = self._elf.some(self._chains + (index + walked - self._first_hashed) * 4, 64)
            if len(block) < 4:
                raise CannotRead.damaged("a hash chain without an end")
            for (entry,) in struct.iter_unpack("<I", block[: len(block) & ~3]):
                if (entry ^ hashed) >> 1 == 0 and self._is(index + walked, name, version):
                    return True
                if entry & 1:
                    return False
                walked += 1
        raise CannotRead.damaged("a hash chain without an end")

    def _in_sysv_chain(self, name: bytes, version: bytes) -> bool:
        buckets, chains = struct.unpack("<II", self._elf.exactly(self._sysv, 8, "the hash table"))
        if not buckets:
            raise CannotRead.damaged("a hash table without buckets")
        at = self._sysv + 8 + 4 * (sysv_hash(name) % buckets)
        for _ in range(min(chains, _LONGEST_CHAIN)):
            (index,) = struct.unpack("<I", self._elf.exactly(at, 4, "the hash table"))
            if not index or index >= chains:
                return False
            if self._is(index, name, version):
                return True
            at = self._sysv + 8 + 4 * (buckets + index)
        return False

    def _is(self, index: int, name: bytes, version: bytes) -> bool:
        record = self._elf.exactly(self._table + index * _SYMBOL.size, _SYMBOL.size, "the symbol table")
        spelled, info, _, section, _, _ = _SYMBOL.unpack(record)
        if not section or info >> 4 not in (_GLOBAL, _WEAK, _UNIQUE):
            return False
        if self._elf.some(self._names + spelled, len(name) + 1) != name + b"\0":
            return False
        if self._versions < 0:
            return True
        index_of_version = self._version_index(index)
        if not version:
            return index_of_version & ~_HIDDEN != 0
        # As in glibc's do_lookup_x: a visible symbol of the unnamed base version answers any request.
        named = self._version_definitions().get(index_of_version & ~_HIDDEN, b"")
        return named == version or (not named and not index_of_version & _HIDDEN)

    def _version_index(self, symbol: int) -> int:
        record = self._elf.exactly(self._versions + symbol * 2, 2, "the symbol versions")
        return int.from_bytes(record, "little")

    @property
    def versioned(self) -> bool:
        """True when the library has a version table."""
        return self._versions >= 0

    def offered_versions(self) -> frozenset[str]:
        """Names of the versions that the library defines (GLIBC_2.34); empty when it has none."""
        versions = self._version_definitions().values()
        return frozenset(name.decode("ascii", "backslashreplace") for name in versions)

    def _version_definitions(self) -> dict[int, bytes]:
        if self._version_names is None:
            self._version_names = {}
            if Tag.VERDEF in self._elf.dynamic:
                at = self._elf.offset_of(self._elf.dynamic[Tag.VERDEF], "the version definitions")
                for _ in range(min(self._elf.dynamic.get(Tag.VERDEFNUM, 0), _MOST_VERSIONS)):
                    record = self._elf.exactly(at, _VERSION_DEFINITION.size, "the version definitions")
                    _, flags, index, _, _, names, following = _VERSION_DEFINITION.unpack(record)
                    (name,) = struct.unpack("<I", self._elf.exactly(at + names, 4, "the version definitions"))
                    if not flags & _BASE:
                        self._version_names[index & ~_HIDDEN] = self._elf.text(self._names + name)
                    if not following:
                        break
                    at += following
        return self._version_names

    # Imports

    def _version_needs(self) -> dict[int, tuple[bytes, str, bool]]:
        """Version index -> (version, library, weak)."""
        if self._needs is None:
            self._needs = self._read_version_needs()
        return self._needs

    def _read_version_needs(self) -> dict[int, tuple[bytes, str, bool]]:
        found: dict[int, tuple[bytes, str, bool]] = {}
        dynamic = self._elf.dynamic
        if Tag.VERNEED not in dynamic or self._names < 0:
            return found
        at = self._elf.offset_of(dynamic[Tag.VERNEED], "the version needs")
        left = _MOST_VERSIONS
        for _ in range(min(dynamic.get(Tag.VERNEEDNUM, 0), _MOST_VERSIONS)):
            record = self._elf.exactly(at, _VERSION_NEED.size, "the version needs")
            _, count, file, one_at, following = _VERSION_NEED.unpack(record)
            source = self._elf.text(self._names + file).decode("utf-8", "backslashreplace")
            one_at += at
            for _ in range(count):
                left -= 1
                if left < 0:
                    raise CannotRead.damaged("version needs without an end")
                one = self._elf.exactly(one_at, _VERSION_NEED_ONE.size, "the version needs")
                _, flags, index, name, next_one = _VERSION_NEED_ONE.unpack(one)
                found[index & ~_HIDDEN] = (self._elf.text(self._names + name), source, bool(flags & 2))
                if not next_one:
                    break
                one_at += next_one
            if not following:
                break
            at += following
        return found

    def wanted_versions(self) -> tuple[NeededVersion, ...]:
        """Every symbol version that the library needs from others."""
        return tuple(
            NeededVersion(name.decode("ascii", "backslashreplace"), source, weak)
            for name, source, weak in self._version_needs().values()
        )

    def wanted(self) -> list[NeededSymbol]:
        """The undefined symbols that must be found, without weak ones, which may stay undefined."""
        count = self._count_of_unhashed()
        if self._table < 0 or count <= 0:
            return []
        if count > _MOST_UNDEFINED:
            raise CannotRead.damaged(f"{count} undefined symbols")
        versions: tuple[int, ...] = ()
        needs: dict[int, tuple[bytes, str, bool]] = {}
        if self._versions >= 0:
            needs = self._version_needs()
            data = self._elf.exactly(self._versions, count * 2, "the symbol versions")
            versions = struct.unpack(f"<{count}H", data)
        table = self._elf.exactly(self._table, count * _SYMBOL.size, "the symbol table")
        found: list[NeededSymbol] = []
        for index, (spelled, info, _, section, _, _) in enumerate(_SYMBOL.iter_unpack(table)):
            if section or info >> 4 not in (_GLOBAL, _UNIQUE) or not spelled:
                continue
            version, source, _ = needs.get(versions[index] & ~_HIDDEN, _ANY) if versions else _ANY
            found.append(NeededSymbol(self._elf.text(self._names + spelled), version, source))
        return found

    def _count_of_unhashed(self) -> int:
        """Number of symbols before the hashed ones; of all symbols when the hash table does not contain it."""
        if any(self._buckets):
            return self._first_hashed
        if self._sysv:
            (count,) = struct.unpack("<I", self._elf.exactly(self._sysv + 4, 4, "the hash table"))
            return int(count)
        # Nothing is exported; GNU ld then writes a hash table with a meaningless first index.
        if self._table < 0:
            return 0
        sections = {section.name: section.size for section in self._elf.sections()}
        if ".dynsym" in sections:
            return sections[".dynsym"] // _SYMBOL.size
        return max(0, self._names - self._table) // _SYMBOL.size
