"""Backups of files before a step: copied completely, and restored byte for byte, with mode and time."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attn_doctor.fix.journal.journal import Run, boundary
from attn_doctor.machine.atomic import copy, put, sha256_of, sync_folder
from attn_doctor.quick_dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """State of one path before a step."""

    file: str
    sha256: str | None
    """None when there was no file, or a link."""
    blob: str = ""
    """Its copy, relative to the run's folder."""
    mode: int = 0
    mtime_ns: int = 0
    link: str | None = None
    """Target of the link, if it was one."""
    folder: bool = False


def part_of(file: Path, run: Run) -> Path:
    """Temporary name of a file while it is written: predictable, so that a crash leaves no unknown file."""
    return file.with_name(f".{file.name[:100]}.{run.id}.attn-doctor")


def keep(files: Iterable[Path], run: Run, step: int) -> tuple[Backup, ...]:
    """Copies each file to the run's folder.

    Raises OSError.
    """
    folder = run.folder / "kept" / str(step)
    folder.mkdir(exist_ok=True)
    found = []
    for number, file in enumerate(dict.fromkeys(files)):
        try:
            seen = file.lstat()
        except (FileNotFoundError, NotADirectoryError):
            found.append(Backup(file=str(file), sha256=None))
            continue
        if stat.S_ISLNK(seen.st_mode):
            found.append(Backup(file=str(file), sha256=None, link=str(file.readlink())))
        elif stat.S_ISREG(seen.st_mode):
            blob = folder / str(number)
            digest = copy(file, blob)
            found.append(
                Backup(
                    file=str(file),
                    sha256=digest,
                    blob=str(blob.relative_to(run.folder)),
                    mode=stat.S_IMODE(seen.st_mode),
                    mtime_ns=seen.st_mtime_ns,
                )
            )
    sync_folder(folder)
    boundary("kept")
    return tuple(found)


def as_before(one: Backup) -> bool:
    """True when the path is now as it was.

    Raises OSError.
    """
    file = Path(one.file)
    try:
        seen = file.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return one.sha256 is None and one.link is None
    if one.link is not None:
        return stat.S_ISLNK(seen.st_mode) and str(file.readlink()) == one.link
    return (
        one.sha256 is not None
        and stat.S_ISREG(seen.st_mode)
        and stat.S_IMODE(seen.st_mode) == one.mode
        and sha256_of(file) == one.sha256
    )


def put_back(one: Backup, run: Run) -> None:
    """Restores the path.

    Raises OSError.
    """
    file = Path(one.file)
    if os.path.lexists(part_of(file, run)):  # on a read-only file system, even removing a missing file fails
        part_of(file, run).unlink()
    if as_before(one):
        return
    boundary("before putting back")
    if one.sha256 is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir() and not file.is_symlink():
            raise OSError(21, os.strerror(21), str(file))
        content = (run.folder / one.blob).read_bytes()
        put(file, content, part=part_of(file, run), mode=one.mode, mtime_ns=one.mtime_ns)
    elif one.link is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = part_of(file, run)
        part.symlink_to(one.link)
        part.replace(file)
    else:
        file.unlink()
        sync_folder(file.parent)
    boundary("after putting back")


def to_json(kept: Iterable[Backup]) -> list[dict[str, Any]]:
    """The backups as JSON values for the run's step-N.json."""
    return [asdict(one) for one in kept]


def from_json(written: list[dict[str, Any]]) -> tuple[Backup, ...]:
    """The reverse of `to_json`."""
    return tuple(Backup(**one) for one in written)
