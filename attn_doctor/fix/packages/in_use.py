"""Programs on this node that run from an environment: replacing packages under them breaks them in odd ways."""

from __future__ import annotations

import os
from pathlib import Path

from attn_doctor.errors import AttnDoctorError
from attn_doctor.machine.target import Target


class InUse(AttnDoctorError):
    """Something runs from the environment."""


def using(target: Target) -> tuple[str, ...]:
    """`process 123: python train.py` for each, our own and those that started us apart, and other runs of `fix`.

    Only processes that this user may look at; nothing is seen of other nodes.
    """
    site = os.path.realpath(str(target.told["purelib"])) + "/"
    own = set(_line(os.getpid()))
    found = []
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda one: int(one.name)):
        if int(folder.name) in own:
            continue
        words = _words(folder)
        # A run of `fix` and what it started, an installer: it has the lock, or waits for it as we shall. One that
        # outlived its run is a stranger.
        if (_from(words[0], target) or site in _read(folder / "maps")) and not any(
            _is_fix(_words(Path(f"/proc/{one}"))) for one in _line(int(folder.name))
        ):
            found.append(f"process {folder.name}: {' '.join(words).strip()[:100]}")
    return tuple(found)


def _is_fix(words: list[str]) -> bool:
    """`python -m attn_doctor fix`, or the console script, which a Python is started with as well."""
    for number, word in enumerate(words[:4]):
        if word == "attn_doctor" or Path(word).name == "attn-doctor":
            return next((one for one in words[number + 1 :] if not one.startswith("-")), "") in ("fix", "undo")
    return False


def _from(program: str, target: Target) -> bool:
    # sys.executable of a virtual environment is a link: the name it was started by tells, the file does not.
    return program.startswith("/") and Path(program).parent == target.python.parent


def _line(process: int) -> list[int]:
    """The process, the one that started it, and so on."""
    found = [process]
    while found[-1] > 1:
        status = _read(Path(f"/proc/{found[-1]}/stat")).rpartition(")")[2].split()
        if len(status) < 2 or not status[1].isdigit():
            break
        found.append(int(status[1]))
    return found


def _words(folder: Path) -> list[str]:
    return _read(folder / "cmdline").split("\0")


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
