"""Finds programs on this node that run from an environment: replacing packages under them breaks them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.packages.scheme import sites
from attn_doctor.machine.target import Target


class InUse(AttnDoctorError):
    """A process runs from the environment."""


def using(target: Target, *, apart: int | None = None) -> tuple[str, ...]:
    """`process 123: python train.py` for each process, except our own, our parents, other runs of `fix`, and the
    process `apart` with its children.

    Only processes that this user may inspect, and only on this node.
    """
    folders = tuple(f"{os.path.realpath(site)}/" for site in sites(target))
    own = set(_line(os.getpid()))
    found = []
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda one: int(one.name)):
        if int(folder.name) in own or apart in _line(int(folder.name)):
            continue
        words = _words(folder)
        # Another `fix` and its installer are exempt: it holds the lock, or waits for it as we will. An installer that
        # outlived its `fix` is not exempt.
        if (_from(_program(folder, words[0]), target) or _maps(folder, folders)) and not any(
            _is_fix(_words(Path(f"/proc/{one}"))) for one in _line(int(folder.name))
        ):
            found.append(f"process {folder.name}: {' '.join(words).strip()[:100]}")
    return tuple(found)


def _maps(folder: Path, sites: tuple[str, ...]) -> bool:
    text = _read(folder / "maps")
    return any(site in text for site in sites)


def _is_fix(words: list[str]) -> bool:
    """True for `python -m attn_doctor fix` or the console script, which is also started with a Python."""
    for number, word in enumerate(words[:4]):
        if word == "attn_doctor" or Path(word).name == "attn-doctor":
            return next((one for one in words[number + 1 :] if not one.startswith("-")), "") in ("fix", "undo")
    return False


def _program(folder: Path, word: str) -> str:
    """The absolute path by which a process was started: relative to its folder, or found on its own PATH."""
    if word.startswith("/"):
        return word
    try:
        if "/" in word:
            return str(Path(os.path.normpath((folder / "cwd").readlink() / word)))
    except OSError:
        return ""
    path = next((one[5:] for one in _read(folder / "environ").split("\0") if one.startswith("PATH=")), "")
    return shutil.which(word, path=path) or "" if word else ""


def _from(program: str, target: Target) -> bool:
    # In a virtual environment sys.executable is a link: the name by which it was started identifies it, the file does
    # not.
    return program.startswith("/") and Path(program).parent == target.python.parent


def _line(process: int) -> list[int]:
    """The process ids of the process, its parent, and so on."""
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
