"""Removes temporary folders left by a killed attn-doctor, at the next run of the same user.

Each folder contains a file that its process keeps locked; the kernel releases the lock when the process ends. A folder
is kept unless it is certainly abandoned: kept are folders without that file, of another user, of another node that
shares the temporary folder, and of an earlier boot of this node.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from attn_doctor.machine import temporary

PREFIX = "attn-doctor-"
#: Names that machine/temporary.py makes from the prefix, and tempfile did.
_NAME = re.compile(re.escape(PREFIX) + r"[a-z0-9_]{8}\Z")
_LOCK = ".held"
#: Most folders removed in one run; the next run removes the others.
_MOST = 20


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Marks a temporary folder as in use within this context; where locking fails, the folder is never removed."""
    handle = None
    with contextlib.suppress(OSError):
        # Renamed to its final name only after it is locked: a concurrent sweep sees a folder without a mark.
        making = folder / f"{_LOCK}.new"
        handle = os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(handle, _this_start())
        making.rename(folder / _LOCK)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def sweep(place: Path) -> None:
    """Removes abandoned folders of this user from a temporary folder."""
    count = 0
    try:
        with os.scandir(place) as entries:
            names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
    except OSError:
        return
    for name in names:
        if count < _MOST and _is_abandoned(place / name):
            temporary.remove(place / name)
            count += 1


def _is_abandoned(folder: Path) -> bool:
    try:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            return False
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.read(handle, 100) == _this_start()
    except OSError:  # its process is alive
        return False
    finally:
        os.close(handle)


def _this_start() -> bytes:
    """Identifies this boot of this node; locks held by another node on a shared file system may not be visible here."""
    return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
