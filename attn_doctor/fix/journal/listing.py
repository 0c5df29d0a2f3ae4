"""What lies in the folders that an installer writes to: names, sizes and times, to see what it put in."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """The folders, each once, links resolved."""

    site: str
    """Where wheels' own files go."""
    folders: tuple[str, ...]

    @classmethod
    def of(cls, purelib: str, platlib: str, scripts: str) -> Roots:
        """From an interpreter's own answer."""
        folders = dict.fromkeys(os.path.realpath(one) for one in (purelib, platlib, scripts))
        return cls(site=os.path.realpath(purelib), folders=tuple(folders))

    def cover(self, file: str) -> bool:
        """Whether the file lies in one of them."""
        return any(file.startswith(folder + "/") for folder in self.folders)

    def to_json(self) -> dict[str, Any]:
        """For the journal."""
        return {"site": self.site, "folders": list(self.folders)}

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Roots:
        """The reverse."""
        return cls(site=written["site"], folders=tuple(written["folders"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Everything there, without content."""

    files: dict[str, tuple[int, ...]]
    """(size, mtime in ns, inode) of each file and link."""
    folders: frozenset[str]

    def to_json(self) -> dict[str, Any]:
        """For the journal."""
        return {"files": {file: list(seen) for file, seen in self.files.items()}, "folders": sorted(self.folders)}

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Listing:
        """The reverse."""
        return cls(
            files={file: tuple(seen) for file, seen in written["files"].items()}, folders=frozenset(written["folders"])
        )

    def changed(self, now: Listing) -> tuple[str, ...]:
        """Files that are there before and now, and are not the same; compiled ones apart."""
        return tuple(
            file
            for file, seen in self.files.items()
            if file in now.files and now.files[file] != seen and "__pycache__" not in Path(file).parts
        )


def listing(roots: Roots) -> Listing:
    """Raises OSError for a folder that cannot be read."""
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
