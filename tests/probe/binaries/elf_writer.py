"""Writes ELF files and fat binaries byte by byte, for what no compiler here produces; uses nothing of the product."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence


def elf_header(*, machine: int = 62, kind: int = 3, bits: int = 2, order: int = 1) -> bytes:
    """64 bytes: no program headers, no sections."""
    ident = b"\x7fELF" + bytes((bits, order, 1)) + bytes(9)
    return ident + struct.pack("<HHIQQQIHHHHHH", kind, machine, 1, 0, 0, 0, 0, 64, 56, 0, 64, 0, 0)


def elf_with_sections(sections: Mapping[str, bytes]) -> bytes:
    """A shared library without code, with these sections."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*sections, ".shstrtab"))
    body = bytearray(64)
    headers = [bytes(64)]
    for name, data in (*sections.items(), (".shstrtab", names)):
        body += bytes(-len(body) % 4096)
        at = names.index(b"\0" + name.encode() + b"\0") + 1
        headers.append(struct.pack("<IIQQQQIIQQ", at, 1, 2, 0, len(body), len(data), 0, 0, 8, 0))
        body += data
    body += bytes(-len(body) % 8)
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    body[:64] = ident + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, len(body), 0, 64, 56, 0, 64, len(headers), len(headers) - 1
    )
    return bytes(body) + b"".join(headers)


def fatbin_entry(
    kind: int, architecture: int, flags: int = 0x11, payload: bytes = bytes(16), header: int = 64
) -> bytes:
    """One entry of a fat binary: kind 1 PTX, 2 machine code, 8 link-time code."""
    head = struct.pack("<HHIQIIIIQQ", kind, 0x101, header, len(payload), 0, 0, 0x10008, architecture, 0, flags)
    return head.ljust(header, b"\0") + payload


def fatbin(entries: Sequence[bytes], version: int = 1) -> bytes:
    """A fat binary around its entries."""
    body = b"".join(entries)
    return struct.pack("<4sHHQ", b"\x50\xed\x55\xba", version, 16, len(body)) + body


def offload_bundle(targets: Sequence[str], code: bytes = b"code") -> bytes:
    """An uncompressed bundle of clang-offload-bundler, padded to a page."""
    table, payload = b"", b""
    start = 32 + sum(24 + len(target) for target in targets)
    for target in targets:
        size = 0 if target.startswith("host") else len(code)
        table += struct.pack("<QQQ", start + len(payload), size, len(target)) + target.encode()
        payload += code[:size]
    bundle = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(targets)) + table + payload
    return bundle + bytes(-len(bundle) % 4096)


def new_ld_cache(entries: Sequence[tuple[str, str, int, int]]) -> bytes:
    """`glibc-ld.so.cache1.1` of (name, file, flags, hwcap); offsets count from its own start."""
    strings, records = b"", b""
    start = 48 + 24 * len(entries)
    for name, file, flags, hwcap in entries:
        name_at = start + len(strings)
        strings += name.encode() + b"\0"
        records += struct.pack("<iIIIQ", flags, name_at, start + len(strings), 0, hwcap)
        strings += file.encode() + b"\0"
    head = b"glibc-ld.so.cache1.1" + struct.pack("<II", len(entries), len(strings)) + bytes(20)
    return head + records + strings


def old_ld_cache(entries: Sequence[tuple[str, str, int]], behind: bytes = b"") -> bytes:
    """`ld.so-1.7.0` of (name, file, flags); offsets count from the strings. `behind`: a new cache that follows."""
    strings, records = b"", b""
    for name, file, flags in entries:
        name_at = len(strings)
        strings += name.encode() + b"\0"
        records += struct.pack("<iII", flags, name_at, len(strings))
        strings += file.encode() + b"\0"
    head = b"ld.so-1.7.0\0" + struct.pack("<I", len(entries)) + records
    if not behind:
        return head + strings
    # As ldconfig writes it: the new one stands at the next multiple of eight and holds the strings of both.
    return head + bytes(-len(head) % 8) + behind
