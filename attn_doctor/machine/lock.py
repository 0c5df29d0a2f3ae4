"""Allows one `fix` at a time per folder: a lock that the kernel releases when its holder dies; records the holder."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from attn_doctor.errors import AttnDoctorError


class Held(AttnDoctorError):
    """Another process holds the lock."""


@contextlib.contextmanager
def locked(folder: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Holds `folder`/lock within this context; waits at most `wait` seconds for another holder.

    Raises Held, which names the holder, and OSError when no lock file can be made.
    """
    file = folder / "lock"
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        _take(handle, file, wait)
        holder = {
            "host": os.uname().nodename,
            "pid": os.getpid(),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(holder).encode(), 0)
        yield
        # The file stays: if it were unlinked, two processes could hold two locks of one name.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def let_finish(folder: Path, *, wait: float = 0.0) -> None:
    """Waits at most `wait` seconds until no process holds `folder`/lock. Writes nothing.

    Raises Held.
    """
    file = folder / "lock"
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # it does not exist, or this user may not open it
    try:
        _take(handle, file, wait, how=fcntl.LOCK_SH)
    finally:
        os.close(handle)


def _take(handle: int, file: Path, wait: float, *, how: int = fcntl.LOCK_EX) -> None:
    until = time.monotonic() + wait
    while True:
        try:
            # lockf, not flock: on NFS only byte-range locks reach other nodes on every kernel.
            fcntl.lockf(handle, how | fcntl.LOCK_NB)
            return
        except (BlockingIOError, PermissionError):
            if time.monotonic() >= until:
                raise Held(
                    "another attn-doctor is changing this environment",
                    about=f"{file}: {_holder(handle)}",
                    hint="Wait until it is done (--wait SECONDS does that), or end it.",
                ) from None
            time.sleep(0.2)


def _holder(handle: int) -> str:
    try:
        holder = json.loads(os.pread(handle, 4096, 0))
        return f"process {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "held by a process that did not say who it is"
