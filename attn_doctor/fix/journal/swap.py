"""Exchanges files one by one, and back: each is moved, never copied where the file system lets it be moved.

A moved file keeps its inode, and with it its links, owner, mode and times. Nothing is renamed over a file that is
there: between two links to one inode that does nothing and reports success. What is there shows how far each file
came, so that either direction can be taken up from any point: a file in `kept` was taken away, one in `staged` has not
come yet.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.journal.exchange import Exchange, Folder, Swap
from attn_doctor.fix.journal.file_state import is_as, there
from attn_doctor.fix.journal.journal import Run, boundary
from attn_doctor.machine.atomic import copy, sync_folder


class ChangedSince(AttnDoctorError):
    """Somebody else changed what a run changed; nothing of that was touched."""

    exit_status = 3


def check_before(swap: Swap) -> None:
    """Raises ChangedSince when a path is not as it was when the exchange was prepared."""
    for one in swap.exchanges:
        file = Path(one.file)
        if there(file) if one.before is None else not is_as(file, one.before):
            raise ChangedSince(
                "the environment was changed by somebody else meanwhile", about=one.file, hint="Nothing was changed."
            )


def swap_in(run: Run, swap: Swap) -> None:
    """Puts the new files in the place of the old ones, from wherever an earlier attempt was cut off.

    Raises OSError, ChangedSince.
    """
    for folder in swap.made:
        _make(folder)
    for one in swap.exchanges:
        file, kept, staged = _places(one, run)
        if one.before is not None and not there(kept):
            if not there(file):
                raise _foreign(file)
            move(file, kept, run)
        if there(file) and (there(staged) or one.after is None):
            # Copied to another file system and not yet removed here.
            if not _is_one_of_ours(one, file):
                raise _foreign(file)
            file.unlink()
        if one.after is not None and there(staged):
            move(staged, file, run)
    for folder in reversed(swap.emptied):
        _remove_if_empty(Path(folder.path))
    _sync(swap)


def swap_back(run: Run, swap: Swap) -> tuple[int, tuple[str, ...]]:
    """Puts the old files back, from wherever either direction was cut off.

    What somebody else put in their place goes to the run's folder `found`. Returns how many files came back, and which
    were left because they are somebody else's. Raises OSError.
    """
    count = 0
    left: list[str] = []
    for folder in swap.emptied:
        _make(folder)
    failed: OSError | None = None
    for one in reversed(swap.exchanges):
        try:
            count += _back(one, run, left)
        except OSError as error:  # as much as possible is put back
            failed = failed or error
    if failed is not None:
        raise failed
    _remove_compiled(swap)
    for folder in reversed(swap.made):
        _remove_if_empty(Path(folder.path))
    _sync(swap)
    return count, tuple(left)


def _back(one: Exchange, run: Run, left: list[str]) -> bool:
    file, kept, staged = _places(one, run)
    part = _part_of(file, run)
    if there(part):
        part.unlink()
    taken = one.before is not None and there(kept)
    if there(file) and (one.before is None or taken):
        if one.after is not None and is_as(file, one.after):
            if there(staged):
                file.unlink()
            else:
                move(file, staged, run)
        elif taken and _is_one_of_ours(one, file):
            file.unlink()  # the kept one is whole
        elif one.is_bytecode:
            file.unlink()
        elif taken:
            set_aside(file, run)
        else:
            left.append(one.file)
    if not taken:
        return False
    move(kept, file, run)
    return True


def set_aside(file: Path, run: Run) -> None:
    """Moves somebody else's file to the run's folder `found`, under its path. Raises OSError."""
    place = run.folder / "found" / str(file).lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    number = 0
    while there(place):
        number += 1
        place = place.with_name(f"{file.name}.{number}")
    move(file, place, run)


def move(source: Path, target: Path, run: Run) -> None:
    """Moves a file to a place where nothing is; to another file system by a complete copy. Raises OSError."""
    boundary(f"before moving {source.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:  # another file system, a bind mount, a layer of an overlay
            raise
        _carry(source, target, run)
    boundary("moved")


def _carry(source: Path, target: Path, run: Run) -> None:
    part = _part_of(target, run)
    if there(part):
        part.unlink()
    try:
        if source.is_symlink():
            part.symlink_to(source.readlink())
        else:
            copy(source, part)
            shutil.copystat(source, part)
        seen = source.lstat()
        with contextlib.suppress(PermissionError):
            os.chown(part, seen.st_uid, seen.st_gid, follow_symlinks=False)
        if not source.is_symlink():
            part.chmod(seen.st_mode & 0o7777)  # after chown, which may clear bits of the mode
        boundary("copied")
        part.rename(target)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    sync_folder(target.parent)
    boundary("both are there")
    source.unlink()


def _part_of(file: Path, run: Run) -> Path:
    """Temporary name of a file while it is written: predictable, so that a crash leaves no unknown file."""
    return file.with_name(f".{file.name[:100]}.{run.id}.attn-doctor")


def _places(one: Exchange, run: Run) -> tuple[Path, Path, Path]:
    return Path(one.file), run.folder / one.kept, run.folder / one.staged


def _is_one_of_ours(one: Exchange, file: Path) -> bool:
    return any(state is not None and is_as(file, state) for state in (one.before, one.after))


def _foreign(file: Path) -> ChangedSince:
    return ChangedSince("somebody else changed a file since the run was cut off", about=str(file))


def _make(folder: Folder) -> None:
    path = Path(folder.path)
    try:
        path.mkdir()
    except FileExistsError:
        return
    path.chmod(folder.mode)
    with contextlib.suppress(PermissionError):
        os.chown(path, folder.uid, folder.gid)


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):  # a file of another program stays
            raise


def _remove_compiled(swap: Swap) -> None:
    """Removes what imports compiled from the new files: the old ones brought theirs back."""
    before = {one.file for one in swap.exchanges if one.before is not None}
    for file in (Path(one.file) for one in swap.exchanges if one.after is not None and one.file.endswith(".py")):
        folder = file.parent / "__pycache__"
        for compiled in folder.glob(f"{_literally(file.stem)}.*.pyc"):
            if str(compiled) not in before:
                with contextlib.suppress(FileNotFoundError):
                    compiled.unlink()
        with contextlib.suppress(OSError):
            folder.rmdir()


def _literally(name: str) -> str:
    return "".join(f"[{one}]" if one in "*?[" else one for one in name)


def _sync(swap: Swap) -> None:
    for folder in _folders(swap.exchanges):
        sync_folder(folder)


def _folders(exchanges: Iterable[Exchange]) -> Iterable[Path]:
    return (Path(one) for one in dict.fromkeys(os.path.dirname(one.file) for one in exchanges))  # noqa: PTH120 -- fast
