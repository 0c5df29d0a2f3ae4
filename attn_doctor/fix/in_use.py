"""Programs on this node that run from an environment: replacing packages under them breaks them in odd ways."""

from __future__ import annotations

import os
from pathlib import Path

from attn_doctor.errors import AttnDoctorError
from attn_doctor.machine.target import Target


class InUse(AttnDoctorError):
    """Something runs from the environment."""


def using(target: Target) -> tuple[str, ...]:
    """`process 123: python train.py` for each, our own and those that started us apart.

    Only processes that this user may look at; nothing is seen of other nodes.
    """
    site = os.path.realpath(str(target.told["purelib"])) + "/"
    own = _ancestors()
    found = []
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda one: int(one.name)):
        if int(folder.name) in own:
            continue
        words = _read(folder / "cmdline").split("\0")
        if _from(words[0], target) or site in _read(folder / "maps"):
            found.append(f"process {folder.name}: {' '.join(words).strip()[:100]}")
    return tuple(found)


def _from(program: str, target: Target) -> bool:
    # sys.executable of a virtual environment is a link: the name it was started by tells, the file does not.
    return program.startswith("/") and Path(program).parent == target.python.parent


def _ancestors() -> set[int]:
    found = {os.getpid()}
    now = os.getpid()
    while now > 1:
        status = _read(Path(f"/proc/{now}/stat")).rpartition(")")[2].split()
        if len(status) < 2 or not status[1].isdigit():
            break
        now = int(status[1])
        found.add(now)
    return found


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
