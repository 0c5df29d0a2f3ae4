"""Ends what the patient's code left behind: a daemon of its own session outlives its parent, and would outlive us.

The doctor becomes the one that such processes are handed to when their parents end (PR_SET_CHILD_SUBREAPER, prctl(2)),
so that it can tell them: they are children of ours that we never started. Linux alone; elsewhere nothing is ended here.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
#: A process that starts new ones as fast as they are ended gets no more of our time than this.
_LONGEST = 3.0

#: Children that this process started itself, and still answers for.
_own: set[int] = set()
_adopting: bool | None = None


def started(pid: int) -> None:
    """A child of our own: never ended here."""
    _own.add(pid)


def ended(pid: int) -> None:
    """It was waited for: its number may belong to somebody else by now."""
    _own.discard(pid)


def adopt() -> bool:
    """Has orphans among our descendants handed to this process, from now on; gives whether that is so.

    Not where there are children already that we never started: a shell that put programs into the background and
    became us by `exec` handed them over, and whose an orphan is could not be told any more.
    """
    global _adopting
    if _adopting is None:
        _adopting = not (_children() - _own) and _become_subreaper()
    return _adopting


def end_all() -> None:
    """Ends every process that was handed to us, and those that are handed to us by their end."""
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
    """Children of this process, by every thread of it (proc_pid_task(5); needs CONFIG_PROC_CHILDREN)."""
    try:
        files = list(Path("/proc/self/task").glob("*/children"))
    except OSError:
        return set()
    found: set[int] = set()
    for file in files:
        with contextlib.suppress(OSError):
            found |= {int(pid) for pid in file.read_text().split()}
    return found
