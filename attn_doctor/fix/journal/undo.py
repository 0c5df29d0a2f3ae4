"""Undoes a run, using only its journal; can be interrupted and repeated at any point."""

from __future__ import annotations

import contextlib
import errno
import hashlib
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.journal import run_commands
from attn_doctor.fix.journal.backups import as_before, from_json, put_back
from attn_doctor.fix.journal.journal import Run, boundary
from attn_doctor.fix.journal.listing import Listing, Roots, listing
from attn_doctor.fix.refusal import Refused
from attn_doctor.machine.atomic import copy, sha256_of

#: Prepares to install these releases again, from a private folder of the run, with the installer of that name.
#: Returns the function that installs them. Raises Refused.
Reinstall = Callable[[tuple[str, ...], Path, str], Callable[[], None]]


class UndoFailed(AttnDoctorError):
    """Something could not be restored; `about` names it, and the journal is kept."""

    exit_status = 5


class ChangedSince(AttnDoctorError):
    """Another program changed a file after the run; nothing was restored."""

    exit_status = 3


def undo(run: Run, *, lenient: bool = False, reinstall: Reinstall | None = None) -> int:
    """Restores everything that the run changed; returns the number of files restored.

    `lenient` restores files whatever their present state: for a run that has just failed, with its own unfinished
    changes. `reinstall` restores packages changed without copies (`--no-stash`). Raises ChangedSince, UndoFailed,
    JournalUnusable.
    """
    entries = run.entries()
    if not entries or any(entry["at"] == "undone" for entry in entries):
        return 0
    begun = list(dict.fromkeys(entry["step"] for entry in entries if entry["at"] == "changing"))
    whole = {entry["step"] for entry in entries if entry["at"] == "changed"}
    undoing = any(entry["at"] == "undoing" for entry in entries)
    steps = [(number, run.read(f"step-{number}.json")) for number in reversed(begun)]
    if not lenient:
        # Packages restored halfway may be in any state; files are in the old or the new state.
        _check([one for one in steps if not undoing or one[1]["kind"] == "edit-file"], whole, run)
    try:
        # On a full disk the files matter more than the journal: a second undo finds them restored.
        with contextlib.suppress(OSError):
            run.note("undoing")
        count = _put_all_back(steps, run, whole, reinstall)
        with contextlib.suppress(OSError):
            run.note("undone")
    except OSError as error:
        raise UndoFailed(
            f"not everything could be put back: {error.strerror or error}",
            about=f"{error.filename or ''}\nthe journal with every file as it was: {run.folder}".strip(),
            hint=f"Mend what stands in the way, then: {run_commands.undo(run)}",
        ) from None
    return count


def _put_all_back(
    steps: list[tuple[int, dict[str, Any]]], run: Run, whole: set[int], reinstall: Reinstall | None
) -> int:
    """Undoes every step, even after one failed: as much as possible is restored.

    Raises the OSError or UndoFailed of the first failure at the end.
    """
    count = 0
    failed: OSError | UndoFailed | None = None
    for number, step in steps:
        try:
            count += _put_back(step, run, whole=number in whole, reinstall=reinstall)
        except (OSError, UndoFailed) as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return count


def check_untouched(run: Run, *, begun: Set[int], whole: Set[int]) -> None:
    """Raises ChangedSince when another program has changed the work of an interrupted run; JournalUnusable."""
    _check([(number, run.read(f"step-{number}.json")) for number in sorted(begun)], whole, run)


def undo_step(run: Run, number: int, *, reinstall: Reinstall | None = None) -> None:
    """Undoes one interrupted step, so that it can be made again.

    Raises UndoFailed, JournalUnusable.
    """
    step = run.read(f"step-{number}.json")
    try:
        _put_back(step, run, whole=False, reinstall=reinstall)
    except OSError as error:
        raise UndoFailed(f"a step could not be put back: {error.strerror or error}", about=str(run.folder)) from None


def _check(steps: list[tuple[int, dict[str, Any]]], whole: Set[int], run: Run) -> None:
    foreign = []
    for number, step in steps:
        if number not in whole and step["kind"] != "edit-file":
            continue  # interrupted: may be in any state
        for one in from_json(step["kept"]):
            wanted = step["after"].get(one.file)
            # Bytecode is compiled again when the new release is imported.
            if "__pycache__" not in one.file and not as_before(one) and sha256_of(Path(one.file)) != wanted:
                foreign.append(one.file)
        for file, digest in step["after"].items():
            if "__pycache__" not in file and sha256_of(Path(file)) not in (digest, None) and file not in foreign:
                known = {one.file for one in from_json(step["kept"])}
                if file not in known:
                    foreign.append(file)
    if foreign:
        more = f"\nand {len(foreign) - 10} more" if len(foreign) > 10 else ""
        raise ChangedSince(
            "files were changed by somebody else since",
            about="\n".join(foreign[:10]) + more,
            hint=f"Nothing was put back. `{run_commands.undo(run, '--force')}` does it; what stands there now is lost.",
        )


def _put_back(step: dict[str, Any], run: Run, *, whole: bool, reinstall: Reinstall | None) -> int:
    kept = from_json(step["kept"])
    count = 0
    if step["kind"] == "install-packages":
        old = _releases_before(step)
        ready = _ready(old, run, reinstall, step["installer"]) if old else None
        count += _take_out(step, run, whole=whole)
        if ready is not None:
            try:
                ready()
            except Refused as error:
                raise _not_reinstalled(old, run, str(error)) from None
            count += len(old)
    for one in kept:
        count += not as_before(one)
        put_back(one, run)
    if step["kind"] == "edit-file":
        for folder in reversed(step["folders"]):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _remove_folder(Path(folder))
    return count


def _releases_before(step: dict[str, Any]) -> tuple[str, ...]:
    """The releases to install again, because no copies were made."""
    if step.get("stash", True):
        return ()
    return tuple(f"{name}=={version}" for name, version in step["before"].items() if version is not None)


def _ready(old: tuple[str, ...], run: Run, reinstall: Reinstall | None, installer: str) -> Callable[[], None]:
    """Prepared before anything is removed: if the old releases are not available, the new ones stay."""
    if reinstall is None:
        raise _not_reinstalled(old, run, "no installer is at hand")
    try:
        return reinstall(old, run.folder / "again", installer)
    except Refused as error:
        raise _not_reinstalled(old, run, str(error)) from None


def _not_reinstalled(old: tuple[str, ...], run: Run, reason: str) -> UndoFailed:
    return UndoFailed(
        f"the run had no copies (--no-stash), and the old releases cannot be installed again: {' '.join(old)}",
        about=f"{reason}\nthe journal: {run.folder}",
        hint=f"Make them available, then, with --index-url or --find-links if need be: {run_commands.undo(run)}",
    )


def _take_out(step: dict[str, Any], run: Run, *, whole: bool) -> int:
    """Removes the files that the installer added; after an interrupted installation, all files that were not there
    before.

    The files are moved into the run's own folder, not deleted: an unlisted file might belong to the user.
    """
    roots = Roots.from_json(step["roots"])
    before = Listing.from_json(run.read(step["listing"]))
    known = {one["file"] for one in step["kept"] if one["sha256"] is not None or one["link"] is not None}
    mine = set(step["after"]) if whole else None
    count = 0
    aside = run.folder / "taken-out"
    aside.mkdir(exist_ok=True)
    now = listing(roots)
    touched = {str(Path(file).parent) for file in (*known, *step["after"])}
    for file in sorted(now.files.keys() - before.files.keys()):
        compiled = Path(file).parent.name == "__pycache__"
        if file in known or (mine is not None and file not in mine and not compiled):
            continue
        if compiled and mine is not None and str(Path(file).parent.parent) not in touched:
            continue  # compiled by another program
        boundary("before taking out")
        _move(Path(file), aside / hashlib.sha256(file.encode()).hexdigest()[:24])
        boundary("after taking out")
        count += 1
    for folder in sorted(now.folders - before.folders, reverse=True):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return count


def _move(file: Path, aside: Path) -> None:
    try:
        file.replace(aside)
    except OSError as error:
        if error.errno != errno.EXDEV:  # another file system
            raise
        with contextlib.suppress(OSError):  # on a full disk removing it matters more
            if not file.is_symlink():
                copy(file, aside)
        file.unlink()


def _remove_folder(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # contains a file of another program, which stays
            raise
