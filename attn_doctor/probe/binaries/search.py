"""The paths where the dynamic loader would look for a library, in its order. Opens only ld.so.cache.

The order is that of glibc's `_dl_map_object` (elf/dl-load.c; described in ld.so(8)): RPATH of the requiring library, of
those that loaded it and of the executable, all ignored when the requiring library has a RUNPATH; LD_LIBRARY_PATH;
RUNPATH of the requiring library; ld.so.cache; the default folders. `glibc-hwcaps` subfolders are left out: they contain
faster builds of the same library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path

from .ld_cache import read_ld_cache
from .reader import MACHINES, ElfFile


class Found(str, Enum):
    """How the loader finds a library."""

    LOADED = "already loaded"
    RPATH = "RPATH"
    LD_LIBRARY_PATH = "LD_LIBRARY_PATH"
    RUNPATH = "RUNPATH"
    CACHE = "ld.so.cache"
    DEFAULT = "default folder"
    BESIDE = "beside the extension"
    """Not found by the loader, but in the same folder, where its package will load it first."""


class SearchPath:
    """The folders of one process: environment, cache and defaults. `root` is put before system paths."""

    __slots__ = ("_cache", "_defaults", "_machine", "_root", "library_path")

    def __init__(self, environment: Mapping[str, str], root: Path, machine: int) -> None:
        self._root = str(root).rstrip("/")
        self._machine = machine
        # Colon or semicolon; an empty part means the working folder (ld.so(8)), which is not examined.
        listed = environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":")
        self.library_path = tuple(folder for folder in listed if folder)
        self._cache: dict[str, tuple[str, ...]] | None = None
        multiarch = f"{MACHINES.get(machine, 'unknown')}-linux-gnu"
        self._defaults = tuple(
            f"{self._root}/{folder}"
            for folder in (f"lib/{multiarch}", f"usr/lib/{multiarch}", "lib64", "usr/lib64", "lib", "usr/lib")
        )

    def candidates(self, name: str, chain: tuple[ElfFile, ...]) -> Iterator[tuple[str, Found]]:
        """Yields paths to try for a library, in order. `chain`: the requiring library, the one that loaded it, ..., the
        executable.
        """
        asking = chain[0]
        if not asking.runpath:
            for elf in chain:
                if not elf.runpath:
                    yield from ((f"{folder}/{name}", Found.RPATH) for folder in self._expand(elf.rpath, elf))
        for folder in self.library_path:
            yield f"{folder}/{name}", Found.LD_LIBRARY_PATH
        for folder in self._expand(asking.runpath, asking):
            yield f"{folder}/{name}", Found.RUNPATH
        yield from self.system(name)

    def system(self, name: str) -> Iterator[tuple[str, Found]]:
        """Yields what is tried for a library last: the system's cache and its default folders."""
        if self._cache is None:
            self._cache = read_ld_cache(Path(f"{self._root}/etc/ld.so.cache"), self._machine)
        for file in self._cache.get(name, ()):
            yield f"{self._root}{file}", Found.CACHE
        for folder in self._defaults:
            yield f"{folder}/{name}", Found.DEFAULT

    def _expand(self, listed: str, elf: ElfFile) -> Iterator[str]:
        # Not resolved: the loader, too, takes $ORIGIN from the path by which it opened the library.
        origin = elf.path.rpartition("/")[0]
        for folder in listed.split(":"):
            if not folder:
                continue
            expanded = folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
            if "LIB" not in expanded or "$" not in expanded:
                yield expanded
                continue
            # $LIB is lib/x86_64-linux-gnu on Debian, lib64 on Red Hat: the one that exists is used.
            for own in (f"lib/{MACHINES.get(self._machine, '')}-linux-gnu", "lib64", "lib"):
                yield expanded.replace("${LIB}", own).replace("$LIB", own)
