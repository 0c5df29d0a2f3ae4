"""Temporary folders, as tempfile makes them and shutil removes them: these two import random, OpenSSL and three
compressors, a twentieth of the time of `check --quick`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def make_folder(prefix: str) -> Path:
    """A new folder that only this user can enter, in the first place for temporary files that can be written.

    Raises OSError when there is none.
    """
    trouble: OSError = FileNotFoundError(2, "there is no folder for temporary files")
    for place in _places():
        folder = Path(place) / (prefix + os.urandom(4).hex())
        try:
            folder.mkdir(mode=0o700)
        except OSError as error:
            trouble = error
            continue
        try:
            _write_to(folder / "room")
        except OSError as error:
            trouble = error
            remove(folder)
            continue
        return folder
    raise trouble


def _places() -> Iterator[str]:
    """https://docs.python.org/3/library/tempfile.html#tempfile.gettempdir"""
    named = (os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP"))
    for place in (*filter(None, named), "/tmp", "/var/tmp", "/usr/tmp", "."):  # noqa: S108
        yield os.path.abspath(place)  # noqa: PTH100


def _write_to(file: Path) -> None:
    file.write_bytes(b"\0")
    file.unlink()


def remove(folder: str | Path) -> None:
    """Removes the folder and all in it, as far as it can; follows no links."""
    with contextlib.suppress(OSError):
        with os.scandir(folder) as entries:
            found = list(entries)
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                remove(entry.path)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)  # noqa: PTH108
        os.rmdir(folder)  # noqa: PTH106
