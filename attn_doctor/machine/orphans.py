"""Ends background processes that the patient's code left behind; a daemon in its own session outlives its parent.

The doctor makes itself the parent of such processes when their own parents end (PR_SET_CHILD_SUBREAPER, prctl(2)). It
recognizes them because they are its children although it never started them. Linux only; elsewhere nothing is ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
#: Longest time in seconds spent on a process that starts new ones as fast as they are ended.
_LONGEST = 3.0

#: Children that this process started itself and has not waited for yet.
_own: set[int] = set()
_adopting: bool | None = None


def started(pid: int) -> None:
    """Registers a child of our own, so that it is never ended here."""
    _own.add(pid)


def ended(pid: int) -> None:
    """Unregisters a child that was waited for: its process id may now belong to another process."""
    _own.discard(pid)


def adopt() -> bool:
    """Makes orphans among our descendants children of this process from now on; returns whether that succeeded.

    Not done when this process already has children that it never started: a shell that ran programs in the background
    and then became this process by `exec` left them, and orphans could not be distinguished from them.
    """
    global _adopting
    if _adopting is None:
        _adopting = not (_children() - _own) and _become_subreaper()
    return _adopting


def end_all() -> None:
    """Ends every adopted process, and those that are adopted because of that."""
    if not _adopting:
        return
    until = time.monotonic() + _LONGEST
    while time.monotonic() < until:
        left = _children() - _own
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.005)


def _become_subreaper() -> bool:
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _children() -> set[int]:
    """Children of this process, of all its threads (proc_pid_task(5); needs CONFIG_PROC_CHILDREN)."""
    try:
        files = list(Path("/proc/self/task").glob("*/children"))
    except OSError:
        return set()
    found: set[int] = set()
    for file in files:
        with contextlib.suppress(OSError):
            found |= {int(pid) for pid in file.read_text().split()}
    return found
