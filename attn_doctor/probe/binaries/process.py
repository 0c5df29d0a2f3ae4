"""The libraries loaded in a process, which library required each, and where the loader would look up a symbol."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attn_doctor.quick_dataclasses import dataclass

from .reader import ElfFile
from .search import Found
from .symbols import Symbols
from .unreadable import Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingLibrary:
    """A needed library that the loader would not find."""

    name: str
    needed_by: Path
    lies_at: Path | None
    """A file of that name in an nvidia-* wheel: installed, but not where the loader looks."""


class Loaded:
    """A loaded library, with the library that first required it, and the libraries found for its own needs."""

    __slots__ = ("elf", "found", "needs", "parent", "symbols")

    def __init__(self, elf: ElfFile, symbols: Symbols, found: Found, parent: Loaded | None) -> None:
        self.elf = elf
        self.symbols = symbols
        self.found = found
        self.parent = parent
        self.needs: list[Loaded] = []

    def chain(self) -> tuple[ElfFile, ...]:
        """This file, the one that loaded it, and so on up to the executable."""
        files = [self.elf]
        parent = self.parent
        while parent is not None:
            files.append(parent.elf)
            parent = parent.parent
        return tuple(files)


class Scope:
    """The libraries of a process, under every name by which the loader finds them."""

    __slots__ = ("by_identity", "by_name", "for_all", "libraries", "missing", "unreadable")

    def __init__(self, base: Scope | None = None) -> None:
        self.libraries: list[Loaded] = list(base.libraries) if base else []
        self.for_all: list[Loaded] = list(base.for_all) if base else []
        """The global scope: the executable, LD_PRELOAD and libraries loaded with RTLD_GLOBAL."""
        self.by_name: dict[str, Loaded] = dict(base.by_name) if base else {}
        self.by_identity: dict[tuple[int, int], Loaded] = dict(base.by_identity) if base else {}
        self.missing: list[MissingLibrary] = []
        self.unreadable: list[Unreadable] = []

    def add(self, library: Loaded) -> None:
        """Adds a library."""
        self.libraries.append(library)
        self.by_identity.setdefault(library.elf.identity, library)
        if library.elf.soname:
            self.by_name.setdefault(library.elf.soname, library)

    def share(self, library: Loaded) -> None:
        """Adds a library and all its dependencies to the global scope."""
        self.for_all = _with_needs([*self.for_all, library])

    def searched_for(self, library: Loaded) -> list[Loaded]:
        """Where the symbols of a library are looked up: the global scope, then the library and its dependencies.

        Not in everything that is loaded: Python and torch load with RTLD_LOCAL.
        """
        return _with_needs([*self.for_all, library])


def _with_needs(libraries: Iterable[Loaded]) -> list[Loaded]:
    """Breadth first, each once."""
    waiting = list(libraries)
    seen = {id(library) for library in waiting}
    for library in waiting:  # grows during the loop
        for needed in library.needs:
            if id(needed) not in seen:
                seen.add(id(needed))
                waiting.append(needed)
    return waiting
