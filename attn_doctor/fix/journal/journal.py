"""The journal of a run: the old state is on disk before each change is made.

    <home>/.attn-doctor/lock
    <home>/.attn-doctor/runs/<run>/plan.json, before.json, journal.jsonl, swap.json
                                   fetched/, stage/, edits/    what is prepared
                                   shadow/                     the environment as it would be, to prove the change on
                                   kept/                       what was there before
                                   found/                      what undo found in its place

A home is the target's prefix; when no package changes, the project of the files. An incomplete line is ignored: the
change it would have announced was not made.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attn_doctor.errors import AttnDoctorError
from attn_doctor.machine import lock, survivors
from attn_doctor.machine.atomic import put, sync_folder
from attn_doctor.quick_dataclasses import dataclass

FOLDER = ".attn-doctor"
#: Format of the journal; a run without it is older, and its steps are written in another form.
FORMAT = 2
#: Parts of a run's folder that only its preparation needs.
_PREPARED = ("fetched", "stage", "edits", "shadow")


class JournalUnusable(AttnDoctorError):
    """A journal cannot be written or read; without one nothing is changed."""


class StillAlive(AttnDoctorError):
    """A process of an interrupted run lives, and may still write."""

    exit_status = 3


def boundary(name: str) -> None:
    """Called between any two steps that reach the disk; tests end the process there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of `fix`."""

    home: Path
    id: str

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.home / FOLDER / "runs" / self.id

    def note(self, at: str, **more: Any) -> None:
        """Appends an entry and waits until it is on disk.

        Raises OSError.
        """
        boundary(f"before {at}")
        line = json.dumps({"at": at, "time": _now(), **more}) + "\n"
        handle = os.open(self.folder / "journal.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
        try:
            size = os.fstat(handle).st_size
            # A crash may have cut the last line off: the next entry must start on a new line.
            if size and os.pread(handle, 1, size - 1) != b"\n":
                line = "\n" + line
            written = os.write(handle, line.encode())
            if written != len(line.encode()):
                raise OSError(28, os.strerror(28))
            os.fsync(handle)
        finally:
            os.close(handle)
        sync_folder(self.folder)
        boundary(f"after {at}")

    def entries(self) -> tuple[dict[str, Any], ...]:
        """Every complete entry, in order."""
        try:
            text = (self.folder / "journal.jsonl").read_bytes().decode(errors="replace")
        except FileNotFoundError:
            return ()
        found = []
        for line in text.split("\n")[:-1]:
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict) and "at" in entry:
                    found.append(entry)
        return tuple(found)

    def write(self, name: str, value: Any) -> None:
        """Writes a JSON file of the run completely and waits until it is on disk.

        Raises OSError.
        """
        file = self.folder / name
        put(file, (json.dumps(value) + "\n").encode(), part=self.folder / f"{name}.part", mode=0o644)

    def read(self, name: str) -> Any:
        """Reads a JSON file of the run.

        Raises JournalUnusable.
        """
        try:
            return json.loads((self.folder / name).read_bytes())
        except (OSError, ValueError) as error:
            raise JournalUnusable(f"the journal cannot be read: {error}", about=str(self.folder / name)) from None

    @property
    def prefix(self) -> str:
        """The environment that it is about; empty where its plan cannot be read."""
        try:
            return str(self.read("plan.json")["prefix"])
        except (JournalUnusable, KeyError, TypeError):
            return ""

    def reached(self, at: str) -> bool:
        """True when the run has such an entry."""
        return any(entry["at"] == at for entry in self.entries())

    @property
    def state(self) -> str:
        """applied, undone, pruned, interrupted, or prepared: ended before anything was changed."""
        reached = [entry["at"] for entry in self.entries()]
        if not reached:
            return "undone"  # the folder was made, and nothing was changed
        for at, state in (
            ("undone", "undone"),
            ("pruned", "pruned"),
            ("undoing", "interrupted"),
            ("verified", "applied"),
            ("swapping", "interrupted"),
            ("changing", "interrupted"),  # of the older format
        ):
            if at in reached:
                return state
        return "prepared"

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks of its processes (machine/survivors.py): of the start, and of each time that it was taken up."""
        return tuple(str(entry["mark"]) for entry in self.entries() if entry.get("mark"))

    def check_format(self) -> None:
        """Raises JournalUnusable for a run of an attn-doctor that wrote its journal in another form."""
        if self.reached("changing") and not self.reached("undone"):
            raise JournalUnusable(
                "the run was made by an earlier attn-doctor, whose journal this one cannot read",
                about=str(self.folder),
                hint=f"Undo it with that attn-doctor; {self.folder / 'kept'} has a copy of every file as it was.",
            )

    def check_ended(self) -> None:
        """Raises StillAlive when a process of the run lives, after waiting for those that are ending."""
        found = survivors.alive(self.marks)
        if found:
            raise StillAlive(
                f"something of run {self.id} still lives", about="\n".join(found), hint="Wait until it has ended."
            )

    def discard_prepared(self) -> None:
        """Removes what was prepared and is not needed any more."""
        for name in _PREPARED:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def size(self) -> int:
        """Bytes that its folder takes, hard links to files elsewhere included."""
        total = 0
        for place, _, files in os.walk(self.folder):
            for name in files:
                with contextlib.suppress(OSError):
                    total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 -- thousands of files
        return total


def home_of(prefix: Path, projects: tuple[str, ...], *, installs: bool) -> Path:
    """Where the journal of a run is stored: in the environment when packages change, else in the first project."""
    return prefix if installs or not projects else Path(projects[0])


def begin(home: Path, plan_text: str, summary: str, *, mark: str = "", notes: Mapping[str, Any] | None = None) -> Run:
    """Starts a run with its plan and notes (file name -> JSON value) on disk. The caller holds the lock.

    Raises JournalUnusable when it cannot be written.
    """
    run = Run(home=home, id=f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{secrets.token_hex(2)}")
    try:
        run.folder.mkdir(parents=True)
        (run.folder / "kept").mkdir()
        put(run.folder / "plan.json", plan_text.encode(), part=run.folder / "plan.part", mode=0o644)
        for name, value in (notes or {}).items():
            run.write(name, value)
        sync_folder(run.folder.parent)
        run.note("begun", summary=summary, pid=os.getpid(), format=FORMAT, mark=mark)
    except OSError as error:
        raise _unusable(home, error) from None
    return run


def runs(home: Path) -> tuple[Run, ...]:
    """Every run of a home, oldest first."""
    try:
        names = sorted(entry.name for entry in (home / FOLDER / "runs").iterdir() if entry.is_dir())
    except OSError:
        return ()
    return tuple(Run(home=home, id=name) for name in names)


@contextlib.contextmanager
def held(homes: tuple[Path, ...], *, wait: float = 0.0) -> Iterator[None]:
    """Holds the locks of all homes, always taken in the same order.

    Raises Held, or JournalUnusable when a home cannot be written.
    """
    with contextlib.ExitStack() as stack:
        for home in sorted(set(homes)):
            folder = home / FOLDER
            try:
                if folder.is_symlink():
                    raise JournalUnusable("the journal's folder is a link", about=str(folder), hint="Remove the link.")
                folder.mkdir(exist_ok=True)
                ignore = folder / ".gitignore"
                _check_owner(home, folder)
                with contextlib.suppress(FileExistsError), open(ignore, "xb") as made:  # noqa: PTH123
                    made.write(b"*\n")  # keeps the journal out of the project's git; a planted link is not followed
                stack.enter_context(lock.locked(folder, wait=wait))
            except OSError as error:
                raise _unusable(home, error) from None
            stack.callback(_give_to_owner, home)
        yield


def _give_to_owner(home: Path) -> None:
    """Gives the journal to whom the environment belongs, where root worked in it: undoing must not need root.

    Kept files and found ones have owners of their own.
    """
    owner = home.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        return
    for place, folders, files in os.walk(home / FOLDER):
        folders[:] = (
            [name for name in folders if name not in ("kept", "found", "shadow")] if "/runs/" in place else folders
        )
        for name in (".", *files):
            with contextlib.suppress(OSError):
                os.chown(Path(place) / name, owner.st_uid, owner.st_gid, follow_symlinks=False)
    for run in runs(home):
        for name in ("kept", "found"):
            with contextlib.suppress(OSError):
                os.chown(run.folder / name, owner.st_uid, owner.st_gid)


def _check_owner(home: Path, folder: Path) -> None:
    """Raises JournalUnusable for a journal that another user planted in a shared folder: undo restores files from
    it."""
    owner, about = folder.stat().st_uid, home.stat()
    if about.st_mode & stat.S_IWOTH and owner not in (os.geteuid(), 0, about.st_uid):
        raise JournalUnusable(
            "the journal's folder is another user's", about=str(folder), hint="Remove it, or ask who made it."
        )


def let_finish(homes: tuple[Path, ...], *, wait: float = 0.0) -> None:
    """Waits until no run is active in any home: an examination meanwhile would see half of the changes.

    Raises Held.
    """
    for home in sorted(set(homes)):
        lock.let_finish(home / FOLDER, wait=wait)


def names(homes: tuple[Path, ...]) -> frozenset[str]:
    """Names of all runs of these homes, in any state."""
    return frozenset(run.id for home in homes for run in runs(home))


def _unusable(home: Path, error: OSError) -> JournalUnusable:
    return JournalUnusable(
        f"no journal can be written: {error.strerror}",
        about=str(home / FOLDER),
        hint="Nothing was changed: without a journal nothing could be put back.",
    )


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
