"""Puts back what a run changed, from the journal alone; may be cut off and begun again at any point."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any

from attn_doctor.errors import AttnDoctorError
from attn_doctor.fix.journal import Run, boundary
from attn_doctor.fix.kept import as_before, from_json, put_back
from attn_doctor.fix.tree import Listing, Roots, listing
from attn_doctor.machine.atomic import sha256_of


class UndoFailed(AttnDoctorError):
    """Something could not be put back; `about` names it, and the journal stays."""

    exit_status = 5


class ChangedSince(AttnDoctorError):
    """Somebody else changed a file since: nothing was put back."""

    exit_status = 3


def undo(run: Run, *, lenient: bool = False) -> int:
    """Puts everything back that the run changed; gives the number of files that had to be.

    `lenient` puts back whatever stands there: for a run that has just failed, whose own half-made work it is. Raises
    ChangedSince, UndoFailed, JournalUnusable.
    """
    entries = run.entries()
    if not entries or any(entry["at"] == "undone" for entry in entries):
        return 0
    begun = list(dict.fromkeys(entry["step"] for entry in entries if entry["at"] == "changing"))
    whole = {entry["step"] for entry in entries if entry["at"] == "changed"}
    undoing = any(entry["at"] == "undoing" for entry in entries)
    steps = [(number, run.read(f"step-{number}.json")) for number in reversed(begun)]
    if not lenient and not undoing:
        _check(steps, whole)
    try:
        # On a full disk the files themselves matter more than the entries: whoever runs undo again finds them in place.
        with contextlib.suppress(OSError):
            run.note("undoing")
        count = sum(_put_back(step, run, whole=number in whole) for number, step in steps)
        with contextlib.suppress(OSError):
            run.note("undone")
    except OSError as error:
        raise UndoFailed(
            f"not everything could be put back: {error.strerror or error}",
            about=f"{error.filename or ''}\nthe journal with every file as it was: {run.folder}".strip(),
            hint="Mend what stands in the way and run `attn-doctor undo` again.",
        ) from None
    return count


def undo_step(run: Run, number: int) -> None:
    """Puts back one step that was cut off halfway, so that it can be made again.

    Raises UndoFailed, JournalUnusable.
    """
    try:
        _put_back(run.read(f"step-{number}.json"), run, whole=False)
    except OSError as error:
        raise UndoFailed(f"a step could not be put back: {error.strerror or error}", about=str(run.folder)) from None


def _check(steps: list[tuple[int, dict[str, Any]]], whole: set[int]) -> None:
    foreign = []
    for number, step in steps:
        if number not in whole and step["kind"] != "edit-file":
            continue  # cut off halfway: anything may stand there
        for one in from_json(step["kept"]):
            wanted = step["after"].get(one.file)
            if not as_before(one) and sha256_of(Path(one.file)) != wanted:
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
            hint="Nothing was put back. --force puts them back all the same; what stands there now is lost.",
        )


def _put_back(step: dict[str, Any], run: Run, *, whole: bool) -> int:
    kept = from_json(step["kept"])
    count = 0
    if step["kind"] == "install-packages":
        count += _take_out(step, run, whole=whole)
    for one in kept:
        count += not as_before(one)
        put_back(one, run)
    if step["kind"] == "edit-file":
        for folder in reversed(step["folders"]):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _remove_folder(Path(folder))
    return count


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
        if error.errno != 18:  # another file system
            raise
        file.unlink()


def _remove_folder(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (39, 17):  # somebody put something into it: theirs to keep
            raise
