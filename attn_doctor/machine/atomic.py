"""Replaces files atomically: always a new file and a rename, never a write in place.

uv hard-links installed files into its cache and other environments: a write in place would change those too.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

_CHUNK = 1 << 20


def sha256_of(file: Path) -> str | None:
    """SHA-256 of a file's bytes; None when there is no such file.

    Raises OSError when the file cannot be read.
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
    """Replaces a file by a new one with this content.

    Owner and group of the old file are kept, as far as this user's rights allow: a file edited by root does not become
    root's. `part` is the temporary name, which must be on the same file system, since os.replace cannot cross file
    systems. Raises OSError; then the old file is unchanged and the temporary file is removed.
    """
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            _give(stream.fileno(), file)
            os.fchmod(stream.fileno(), mode)  # after chown, which may clear bits of the mode
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
        return  # a new file belongs to its writer
    for uid in (owner.st_uid, -1):  # only root may change the owner; anybody may give a file to a group of theirs
        with contextlib.suppress(OSError):
            os.fchown(handle, uid, owner.st_gid)
            return


def copy(source: Path, file: Path) -> str:
    """Copies the bytes, never as a link, and waits until they are on disk; returns their SHA-256.

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
    """Waits until the folder's entries are on disk; does nothing on file systems without support for it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sync_file_system(folder: Path) -> None:
    """Waits until everything on the folder's file system is on disk: thousands of files one by one take minutes."""
    with contextlib.suppress(OSError, AttributeError, ImportError):
        import ctypes

        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            ctypes.CDLL(None).syncfs(handle)
        finally:
            os.close(handle)
