"""The environment as it would be after an exchange: a tree of hard links, in which old files are gone and new ones lie
in place.

What is proven here holds there: `.pth` files, namespace packages, relative run paths and metadata are as they will be,
which no entry on sys.path achieves. It never becomes the environment. A file in it may be a link into the environment,
so nothing here is ever opened for writing: it is removed and made anew.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from threading import Event

from attn_doctor.fix.journal.exchange import Swap
from attn_doctor.fix.journal.file_state import there
from attn_doctor.fix.journal.journal import FOLDER, Run
from attn_doctor.quick_dataclasses import dataclass, field

#: Link by copying a file up from a lower layer, or not at all.
_COPYING = frozenset({"overlay", "vfat", "exfat", "ntfs3", "9p"})


class Stopped(Exception):
    """Nobody wants the shadow any more."""


@dataclass(slots=True, kw_only=True)
class Shadow:
    """Folders of an environment, and the folders that stand for them."""

    folders: dict[str, str] = field(default_factory=dict)
    """Folder, links resolved -> its shadow."""
    copied_bytes: int = 0
    """What had to be copied because the file system, or its rules, refused a link."""
    stopped: Event = field(default_factory=Event)
    """Set where nobody wants it any more: making it ends with Stopped."""
    linked: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Linked file -> its size and time, to see that nothing wrote through a link."""

    def of(self, path: str) -> str | None:
        """The shadow of a path, or None when it has none."""
        for folder, shadow in self.folders.items():
            if path == folder or path.startswith(folder + "/"):
                return shadow + path[len(folder) :]
        return None

    def add(self, folder: str, shadow: str) -> None:
        """Makes the shadow of a folder. Raises OSError."""
        self.folders[folder] = shadow
        self._grow(folder, shadow)

    def exchange(self, run: Run, swap: Swap) -> None:
        """Makes the exchange in the shadow. Raises OSError."""
        for one in swap.exchanges:
            place = self.of(one.file)
            if place is None:
                continue
            file = Path(place)
            if there(file):
                file.unlink()
            if one.after is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                self._link(str(run.folder / one.staged), place)
        for folder in reversed(swap.emptied):
            empty = self.of(folder.path)
            if empty is not None:
                with contextlib.suppress(OSError):
                    Path(empty).rmdir()
        self._lead_here()

    def written_through(self) -> tuple[str, ...]:
        """Files of the environment that have changed since they were linked; compiled ones apart."""
        found = []
        for file, known in self.linked.items():
            with contextlib.suppress(OSError):
                seen = os.stat(file, follow_symlinks=False)  # noqa: PTH116 -- tens of thousands of files
                if (seen.st_size, seen.st_mtime_ns) != known and not file.endswith(".pyc"):
                    found.append(file)
        return tuple(found)

    def _grow(self, folder: str, shadow: str) -> None:
        if self.stopped.is_set():
            raise Stopped
        os.makedirs(shadow)  # noqa: PTH103
        with os.scandir(folder) as entries:
            for entry in entries:
                place = f"{shadow}/{entry.name}"
                if entry.is_symlink():
                    os.symlink(self._led(os.readlink(entry.path)), place)  # noqa: PTH115, PTH211
                elif entry.is_dir():
                    if entry.name != FOLDER:
                        self._grow(entry.path, place)
                else:
                    seen = entry.stat()
                    if stat.S_ISREG(seen.st_mode):
                        self.linked[entry.path] = (seen.st_size, seen.st_mtime_ns)
                        self._link(entry.path, place)

    def _link(self, source: str, place: str) -> None:
        try:
            os.link(source, place, follow_symlinks=False)
        except OSError:
            # No links on this file system, not across a mount, or not to somebody else's files.
            shutil.copy2(source, place, follow_symlinks=False)
            self.copied_bytes += os.lstat(place).st_size

    def _led(self, target: str) -> str:
        """The target of a link, in the shadow where it led into the environment by an absolute path."""
        return self.of(target) or target

    def _lead_here(self) -> None:
        """Lets `.pth` files with absolute paths into the environment lead into the shadow."""
        for shadow in self.folders.values():
            for file in _startup_files(Path(shadow)):
                try:
                    content = file.read_bytes()
                except OSError:
                    continue
                led = content
                for real, here in self.folders.items():
                    led = led.replace(os.fsencode(real + "/"), os.fsencode(here + "/"))
                if led != content:
                    file.unlink()
                    file.write_bytes(led)


def copying_kind(folders: Iterable[str], beside: str) -> str:
    """The kind of file system that makes copies of what is linked, or "another file system" where the journal lies on
    one; empty where links cost no room.
    """
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    kinds = {}
    for line in lines:
        fields, _, rest = line.partition(" - ")
        kinds[os.fsdecode(os.fsencode(fields.split()[4]).decode("unicode_escape"))] = rest.split()[0]
    mounts = [_mount_of(one, kinds) for one in (*folders, beside)]
    copies = next((kinds[one] for one in mounts if kinds.get(one) in _COPYING), "")
    return copies or ("another file system" if len(set(mounts)) > 1 else "")


def _mount_of(path: str, mounts: Iterable[str]) -> str:
    above = (one for one in mounts if path == one or path.startswith(f"{one.rstrip('/')}/"))
    return max(above, key=len, default="")


def _startup_files(shadow: Path) -> Iterable[Path]:
    found = (*shadow.glob("*.pth"), *shadow.glob("lib*/python*/*-packages/*.pth"))
    return {file.resolve(): file for file in found}.values()  # lib64 is a link to lib
