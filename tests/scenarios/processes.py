"""Whether processes are there: for tests that end things and look what is left."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path


def gone(pid: int, *, within: float = 20.0) -> bool:
    """Whether the process ends within so many seconds; one that only waits to be reaped has ended."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def has_open(pid: int, ending: str, *, within: float = 60.0) -> bool:
    """Whether the process opens a file whose name ends so, within so many seconds."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                if str(link.readlink()).endswith(ending):
                    return True
        time.sleep(0.05)
    return False


def written(file: Path, *, within: float = 30.0) -> str:
    """The file's text as soon as there is any."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        if file.exists() and file.read_text():
            return file.read_text()
        time.sleep(0.05)
    raise AssertionError(f"{file} was not written")
