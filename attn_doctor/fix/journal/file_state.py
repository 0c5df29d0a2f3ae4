"""What a path holds, as far as it must be the same again: content, links, mode, owner, times."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from attn_doctor.machine.atomic import sha256_of
from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A file or a symbolic link."""

    size: int
    mtime_ns: int
    inode: int
    mode: int
    uid: int
    gid: int
    sha256: str = ""
    """Empty where nobody needed it yet."""
    link: str | None = None
    """Target of the link, if it is one."""


def state_of(file: Path, sha256: str = "") -> FileState | None:
    """The present state; None when nothing is there.

    Raises OSError, also for a folder or a device.
    """
    try:
        seen = file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    link = str(file.readlink()) if stat.S_ISLNK(seen.st_mode) else None
    if link is None and not stat.S_ISREG(seen.st_mode):
        raise OSError(21, "neither a file nor a link", str(file))
    return FileState(
        size=seen.st_size,
        mtime_ns=seen.st_mtime_ns,
        inode=seen.st_ino,
        mode=stat.S_IMODE(seen.st_mode),
        uid=seen.st_uid,
        gid=seen.st_gid,
        sha256=sha256,
        link=link,
    )


def is_as(file: Path, state: FileState) -> bool:
    """True when the path holds what it held in that state.

    The same inode, size and time is the same content; else the digest decides, where it is known. Raises OSError.
    """
    try:
        now = state_of(file)
    except IsADirectoryError:
        return False
    if now is None or now.link != state.link:
        return False
    if now.link is not None:
        return True
    if now.size != state.size:
        return False
    if now.mtime_ns == state.mtime_ns and (now.inode == state.inode or not state.sha256):
        return True
    return bool(state.sha256) and sha256_of(file) == state.sha256


def there(file: Path) -> bool:
    """True when the path holds anything, a dangling link included."""
    return os.path.lexists(file)
