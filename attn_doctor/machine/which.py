"""Finds a command on PATH, as shutil.which does: shutil imports three compressors, which few starts need."""

from __future__ import annotations

import os


def which(command: str, path: str | None = None) -> str | None:
    """The path of the first executable file of this name on `path`, or on PATH; None when there is none."""
    if "/" in command:
        return command if _is_executable(command) else None
    folders = os.environ.get("PATH", os.defpath) if path is None else path
    for folder in folders.split(os.pathsep) if folders else ():
        found = os.path.join(folder, command)  # noqa: PTH118
        if _is_executable(found):
            return found
    return None


def _is_executable(file: str) -> bool:
    return os.access(file, os.X_OK) and not os.path.isdir(file)  # noqa: PTH112
