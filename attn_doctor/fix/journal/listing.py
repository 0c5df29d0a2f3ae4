"""Lists the folders that an installer writes to, by name, size and time, to see which files it added."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """The folders, each once, links resolved."""

    site: str
    """Folder for the wheels' own files."""
    folders: tuple[str, ...]

    @classmethod
    def of(cls, purelib: str, platlib: str, scripts: str) -> Roots:
        """Makes the folders from the paths that an interpreter reports."""
        folders = dict.fromkeys(os.path.realpath(one) for one in (purelib, platlib, scripts))
        return cls(site=os.path.realpath(purelib), folders=tuple(folders))

    def cover(self, file: str) -> bool:
        """True when the file is below one of them."""
        return any(file.startswith(folder + "/") for folder in self.folders)

    def to_json(self) -> dict[str, Any]:
        """JSON values for the journal."""
        return {"site": self.site, "folders": list(self.folders)}

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Roots:
        """The reverse of `to_json`."""
        return cls(site=written["site"], folders=tuple(written["folders"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """All files in the folders, without contents."""

    files: dict[str, tuple[int, ...]]
    """(size, mtime in ns, inode) of each file and link."""
    folders: frozenset[str]

    def to_json(self) -> dict[str, Any]:
        """JSON values for the journal."""
        return {"files": {file: list(seen) for file, seen in self.files.items()}, "folders": sorted(self.folders)}

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Listing:
        """The reverse of `to_json`."""
        return cls(
            files={file: tuple(seen) for file, seen in written["files"].items()}, folders=frozenset(written["folders"])
        )

    def changed(self, now: Listing) -> tuple[str, ...]:
        """Files present before and now, but changed; except compiled ones."""
        return tuple(
            file
            for file, seen in self.files.items()
            if file in now.files and now.files[file] != seen and "__pycache__" not in Path(file).parts
        )


def listing(roots: Roots) -> Listing:
    """Lists the folders. Raises OSError for one that cannot be read."""
    files: dict[str, tuple[int, ...]] = {}
    folders: set[str] = set()
    for root in roots.folders:
        for entry in _walk(root):
            seen = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(seen.st_mode):
                folders.add(entry.path)
            else:
                files[entry.path] = (seen.st_size, seen.st_mtime_ns, seen.st_ino)
    return Listing(files=files, folders=frozenset(folders))


def _walk(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda one: one.name)
    except FileNotFoundError:
        return
    for entry in found:
        if entry.name == ".attn-doctor":
            continue
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
