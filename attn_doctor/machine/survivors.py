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
            if wanted.isdisjoint((folder / "environ").read_bytes().split(b"\0")):
                continue
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        found.append(f"process {folder.name}: {words[:100]}")
    return tuple(found)
