"""Puts back what a run changed, from the journal alone; may be cut off and begun again at any point."""

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

#: Makes ready to install these releases again: from a private folder of the run, by the installer of that name.
#: Gives what does it. Raises Refused.
Reinstall = Callable[[tuple[str, ...], Path, str], Callable[[], None]]


class UndoFailed(AttnDoctorError):
    """Something could not be put back; `about` names it, and the journal stays."""

    exit_status = 5


class ChangedSince(AttnDoctorError):
    """Somebody else changed a file since: nothing was put back."""

    exit_status = 3


def undo(run: Run, *, lenient: bool = False, reinstall: Reinstall | None = None) -> int:
    """Puts everything back that the run changed; gives the number of files that had to be.

    `lenient` puts back whatever stands there: for a run that has just failed, whose own half-made work it is.
    `reinstall` is for what was changed without copies (`--no-stash`). Raises ChangedSince, UndoFailed,
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
        # Of packages that were half put back anything may stand there; files are what they were or what was made.
        _check([one for one in steps if not undoing or one[1]["kind"] == "edit-file"], whole, run)
    try:
        # On a full disk the files themselves matter more than the entries: whoever runs undo again finds them in place.
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
    """Every step, also where one of them cannot be: as much as can be is as it was.

    Raises the first one's OSError or UndoFailed afterwards.
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
    """Raises ChangedSince where somebody has changed since what a run that was cut off had made; JournalUnusable."""
    _check([(number, run.read(f"step-{number}.json")) for number in sorted(begun)], whole, run)


def undo_step(run: Run, number: int, *, reinstall: Reinstall | None = None) -> None:
    """Puts back one step that was cut off halfway, so that it can be made again.

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
            continue  # cut off halfway: anything may stand there
        for one in from_json(step["kept"]):
            wanted = step["after"].get(one.file)
            # Bytecode is compiled anew by whoever imports the new release.
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
    """What has to be installed again, since nothing was copied aside."""
    if step.get("stash", True):
        return ()
    return tuple(f"{name}=={version}" for name, version in step["before"].items() if version is not None)


def _ready(old: tuple[str, ...], run: Run, reinstall: Reinstall | None, installer: str) -> Callable[[], None]:
    """Before anything is taken out: where the old releases cannot be had, the new ones stay."""
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
    """Takes out what the installer put in; of an installation that was cut off, everything that was not there before.

    Files go into the run's own folder, not away: what is not in any list might be somebody's after all.
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
            continue  # another program compiled its own
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
        with contextlib.suppress(OSError):  # on a full disk taking it out matters more
            if not file.is_symlink():
                copy(file, aside)
        file.unlink()


def _remove_folder(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # somebody put something into it: theirs to keep
            raise
