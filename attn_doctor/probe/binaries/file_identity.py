"""The identity of a compiled file, independent of its wheel's metadata: build id and size.

Two wheels may write the same path, and the one installed last wins: metadata then names a library that is not there
(https://github.com/marin-community/marin/issues/7344).
"""

from __future__ import annotations

from pathlib import Path

from attn_doctor.model.digests import sha256

from .reader import ElfFile
from .unreadable import CannotRead, Unreadable

#: A file without build id is hashed completely up to this size in bytes (about 40 ms); of a larger one, the two ends.
_SMALL = 16 << 20
_END = 1 << 20


def identity(path: Path) -> str | Unreadable:
    """`build-id 7ebc…, 215000 bytes`; without a build id, a SHA-256. Never raises: returns Unreadable."""
    try:
        with ElfFile(str(path)) as elf:
            return identity_of(elf)
    except CannotRead as problem:
        return problem.about(path)


def identity_of(elf: ElfFile) -> str:
    """The same for an open file. Raises CannotRead."""
    build_id = elf.build_id()
    if build_id:
        return f"build-id {build_id}, {elf.size} bytes"
    if elf.size <= _SMALL:
        return f"sha256 {sha256(elf.some(0, elf.size)).hexdigest()[:40]}, {elf.size} bytes"
    ends = elf.some(0, _END) + elf.some(elf.size - _END, _END)
    return f"sha256 of both ends {sha256(ends).hexdigest()[:40]}, {elf.size} bytes"
