"""Replacing files whole: always a new file and a rename, never a write in place.

uv hard-links installed files into its cache and other environments: a write in place would change those too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

_CHUNK = 1 << 20


def sha256_of(file: Path) -> str | None:
    """SHA-256 of a file's bytes, None when there is no such file.

    Raises OSError for one that cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return digest.hexdigest()


def put(file: Path, content: bytes, *, part: Path, mode: int, mtime_ns: int | None = None) -> None:
    """Puts a file with this content in the place of the old one.

    Owner and group stay those of the old file, as far as this user may give files away: what root mends is not root's
    afterwards. `part` is its name while it is written, beside `file`: os.replace cannot cross file systems. Raises
    OSError; the old file is then as it was and the part is gone.
    """
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            _give(stream.fileno(), file)
            os.fchmod(stream.fileno(), mode)  # after its owner: giving a file away may cost it bits of its mode
            os.fsync(stream.fileno())
        if mtime_ns is not None:
            os.utime(part, ns=(mtime_ns, mtime_ns))
        part.replace(file)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    sync_folder(file.parent)


def _give(handle: int, file: Path) -> None:
    try:
        owner = file.lstat()
    except OSError:
        return  # a new file is its writer's
    for uid in (owner.st_uid, -1):  # only root gives to another user; anybody to a group of theirs
        with contextlib.suppress(OSError):
            os.fchown(handle, uid, owner.st_gid)
            return


def copy(source: Path, file: Path) -> str:
    """Copies bytes, never links, and waits until they are on disk; gives their SHA-256.

    Raises OSError.
    """
    digest = hashlib.sha256()
    with source.open("rb") as reading, file.open("wb") as writing:
        while chunk := reading.read(_CHUNK):
            digest.update(chunk)
            writing.write(chunk)
        writing.flush()
        os.fsync(writing.fileno())
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Waits until the folder's entries are on disk; file systems that cannot are left alone."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
