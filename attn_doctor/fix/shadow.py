"""The environment as it would be after an exchange: a tree of links, in which old files are gone and new ones lie in
place.

What is proven here holds there: `.pth` files, namespace packages, relative run paths and metadata are as they will be,
which no entry on sys.path achieves. It never becomes the environment. A file in it may be a link into the environment,
so nothing here is ever opened for writing: it is removed and made anew.

A top-level folder in which nothing changes, and whose package needs nothing that changes, is one link to the
environment's own: 20,000 links to files fewer in an environment with torch. Such a link is followed by what resolves
paths and leads out of its folder. The run path of a shared library does that (`$ORIGIN/../../nvidia/cudnn/lib`: the
kernel follows the link before it goes up), so every file is linked where a shared library changes; Python's imports and
metadata never do.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from attn_doctor.fix.journal.exchange import Swap
from attn_doctor.fix.journal.file_state import there
from attn_doctor.fix.journal.journal import FOLDER, Run
from attn_doctor.quick_dataclasses import dataclass, field

#: Link by copying a file up from a lower layer, or not at all.
_COPYING = frozenset({"overlay", "vfat", "exfat", "ntfs3", "9p"})


@dataclass(slots=True, kw_only=True)
class Shadow:
    """Folders of an environment, and the folders that stand for them."""

    folders: dict[str, str] = field(default_factory=dict)
    """Folder, links resolved -> its shadow."""
    sites: tuple[str, ...] = ()
    """Those of them, or below them, that hold packages."""
    linked: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Linked file -> its size and time, to see that nothing wrote through a link."""
    shared: list[str] = field(default_factory=list)
    """Folders of the environment to which a link leads."""
    _born: int = 0
    """The file system's time when it was begun, in ns."""
    _whole: frozenset[str] = frozenset()
    """Folders of which every file is linked by itself."""
    _above: frozenset[str] = frozenset()
    """The folders above them."""

    def of(self, path: str) -> str | None:
        """The shadow of a path, or None when it has none."""
        for folder, shadow in self.folders.items():
            if path == folder or path.startswith(folder + "/"):
                return shadow + path[len(folder) :]
        return None

    def make(self, home: Path, apart: Iterable[str], *, everything: bool) -> None:
        """Makes the shadows of all folders below `home`. `apart`: paths whose top-level folders must not be shared;
        `everything`: none is. Raises OSError.
        """
        tops = {self._top(one) for one in apart if self.of(one) is not None}
        self._whole = frozenset(self.folders if everything else tops)
        self._above = frozenset(above for one in (*tops, *self.sites) for above in _with_parents(one)) - tops
        home.mkdir(parents=True)
        self._born = home.stat().st_ctime_ns
        for folder, shadow in self.folders.items():
            self._grow(folder, shadow, apart=folder in self._whole)

    def exchange(self, run: Run, swap: Swap) -> None:
        """Makes the exchange in the shadow. Raises OSError."""
        for one in swap.exchanges:
            place = self.of(one.file)
            if place is None:
                continue
            file = Path(place)
            self._check_apart(one.file)
            if there(file):
                file.unlink()
            if one.after is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                _link(str(run.folder / one.staged), place)
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
                if (seen.st_size, seen.st_mtime_ns) != known:
                    found.append(file)
        for folder in self.shared:
            found += _changed_since(folder, self._born)
        return tuple(one for one in found if not one.endswith((".pyc", "/__pycache__")))

    def _check_apart(self, path: str) -> None:
        """Raises OSError for a path that leads into the environment, where it must not be touched."""
        if any(path.startswith(f"{one}/") for one in self.shared):
            raise OSError(errno.EXDEV, "the shadow shares that folder with the environment", path)

    def _top(self, path: str) -> str:
        """The folder, directly in one that holds packages or else in one that has a shadow, in which the path lies."""
        within = max((one for one in (*self.sites, *self.folders) if path.startswith(f"{one}/")), key=len, default=path)
        return f"{within}/{path[len(within) + 1 :].partition('/')[0]}"

    def _grow(self, folder: str, shadow: str, *, apart: bool) -> None:
        os.makedirs(shadow)  # noqa: PTH103
        with os.scandir(folder) as entries:
            for entry in entries:
                place = f"{shadow}/{entry.name}"
                if entry.is_symlink():
                    os.symlink(self._led(os.readlink(entry.path)), place)  # noqa: PTH115, PTH211
                elif entry.is_dir():
                    if entry.name == FOLDER:
                        continue
                    if apart or entry.path in self._whole or entry.path in self._above:
                        self._grow(entry.path, place, apart=apart or entry.path in self._whole)
                    else:
                        os.symlink(entry.path, place)  # noqa: PTH211
                        self.shared.append(entry.path)
                else:
                    seen = entry.stat()
                    if stat.S_ISREG(seen.st_mode):
                        self.linked[entry.path] = (seen.st_size, seen.st_mtime_ns)
                        _link(entry.path, place)

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


def _link(source: str, place: str) -> None:
    try:
        os.link(source, place, follow_symlinks=False)
    except OSError:
        # No links on this file system, not across a mount, or not to somebody else's files.
        shutil.copy2(source, place, follow_symlinks=False)


def _with_parents(path: str) -> Iterator[str]:
    yield path
    yield from map(str, Path(path).parents)


def _changed_since(folder: str, moment: int) -> Iterator[str]:
    """What has been written, made or removed below a folder since a moment, in ns."""
    with contextlib.suppress(OSError):
        if _changed_at(os.stat(folder)) > moment:  # noqa: PTH116 -- tens of thousands of files
            yield folder
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        yield from _changed_since(entry.path, moment)
                elif _changed_at(entry.stat(follow_symlinks=False)) > moment:
                    yield entry.path


def _changed_at(seen: os.stat_result) -> int:
    """A wheel may hold times of the future; another link to the file, made by uv elsewhere, sets its ctime alone."""
    return min(seen.st_mtime_ns, seen.st_ctime_ns)


def is_library(file: str) -> bool:
    """True for a shared library by its name."""
    name = file.rpartition("/")[2]
    return name.endswith(".so") or ".so." in name


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
