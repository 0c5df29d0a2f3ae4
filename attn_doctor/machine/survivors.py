"""Processes of a run that still live: each carries the run's mark in its environment variables.

They end with attn-doctor (ends_with_us.py). What lives all the same, such as one that is stuck in the kernel or was
stopped, must be gone before another process changes what it may still write to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

MARK = "ATTN_DOCTOR_RUN"
#: Seconds that processes of a run that was just killed have to be gone.
_DYING = 5.0
#: Seconds in which a process that is changing programs has to show its new variables: Linux takes the old ones away
#: first, and shows none until the new program is laid out.
_CHANGING = 0.5


def alive(marks: Collection[str], *, wait: float = _DYING) -> tuple[str, ...]:
    """`process 123: pip install …` for each process with such a mark but our own line, after waiting for dying ones.

    Only processes of this node that this user may inspect.
    """
    until = time.monotonic() + wait
    while True:
        found = _marked(marks)
        if not found or time.monotonic() >= until:
            return found
        time.sleep(0.02)


def _marked(marks: Collection[str]) -> tuple[str, ...]:
    wanted = {f"{MARK}={mark}".encode() for mark in marks}
    if not wanted:
        return ()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) in (os.getpid(), os.getppid()):
            continue
        try:
            variables, words = _variables_and_words(folder)
        except OSError:
            continue
        if not wanted.isdisjoint(variables):
            found.append(f"process {folder.name}: {words[:100]}")
    return tuple(found)


def _variables_and_words(folder: Path) -> tuple[list[bytes], str]:
    """`NAME=value` for each environment variable, and the command line.

    Raises:
        OSError: The process has ended, or is another user's.
    """
    until = time.monotonic() + _CHANGING
    while True:
        variables = (folder / "environ").read_bytes()
        words = (folder / "cmdline").read_bytes()
        if variables or words or not _has_program(folder) or time.monotonic() >= until:
            return variables.split(b"\0"), words.replace(b"\0", b" ").decode(errors="replace").strip()
        time.sleep(0.001)


def _has_program(folder: Path) -> bool:
    """Whether it runs a program: a thread of the kernel and one that has ended have none."""
    try:
        (folder / "exe").readlink()
    except OSError:
        return False
    return True
