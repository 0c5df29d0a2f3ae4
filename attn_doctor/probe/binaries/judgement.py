"""Looks up an extension's undefined symbols in all libraries that would be loaded, and assigns missing ones to their
library.

Only certain cases are reported as missing: not a symbol that may belong to a library which is missing itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from .loader import LoaderView
from .mangled import StringAbi, string_abi
from .owners import family, is_a_family, is_pythons, is_surely_torchs, is_torchs, may_be_gpu_part, stem
from .process import Loaded, Scope
from .symbols import NeededSymbol, gnu_hash
from .unreadable import CannotRead, Unreadable

_TORCH_CORE = ("libc10.so", "libtorch_cpu.so", "libtorch_python.so")
_TORCH_GPU = frozenset(
    {"libc10_cuda", "libtorch_cuda", "libtorch_cuda_cpp", "libtorch_cuda_cu", "libc10_hip", "libtorch_hip"}
)


class Judgement(NamedTuple):
    """Undefined symbols of one library that no library exports, grouped by the library they belong to."""

    torch: tuple[str, ...]
    other: tuple[str, ...]
    python: tuple[str, ...]
    unjudged: tuple[str, ...]
    unreadable: tuple[Unreadable, ...]
    string_abi: StringAbi | None


def judge(library: Loaded, extension: Loaded, scope: Scope, view: LoaderView) -> Judgement:
    """Looks up the needs of a library that is loaded for an extension, or of the extension itself.

    Raises CannotRead when the library itself cannot be read; its dependencies may be unreadable.
    """
    wanted = library.symbols.wanted()
    finder = _Finder(scope.searched_for(extension), view)
    nowhere = [each for each in wanted if not finder.finds(each)]
    court = _Court(finder.libraries, scope, view, uncertain=bool(finder.unreadable or scope.unreadable))
    piles: dict[Whose, list[bytes]] = {whose: [] for whose in Whose}
    for each in nowhere:
        piles[court.whose(each)].append(each.name)
    return Judgement(
        torch=_spelled(piles[Whose.TORCH]),
        other=_spelled(piles[Whose.OTHER]),
        python=_spelled(piles[Whose.PYTHON]),
        unjudged=_spelled(piles[Whose.UNJUDGED]),
        unreadable=tuple(finder.unreadable.values()),
        string_abi=_string_abi_of(each.name for each in wanted),
    )


class Whose(Enum):
    """The library to which a missing symbol belongs."""

    TORCH = "torch's"
    OTHER = "another library's that is there"
    PYTHON = "the interpreter's"
    UNJUDGED = "cannot be told"
    EXPLAINED = "a missing library, a missing version or another build of torch"


class _Court:
    """Assigns a missing symbol to its library."""

    def __init__(self, searched: list[Loaded], scope: Scope, view: LoaderView, *, uncertain: bool) -> None:
        self._scope = scope
        self._view = view
        self._uncertain = uncertain
        self._missing = {stem(each.name) for each in scope.missing}
        self._present = {stem(each.elf.soname) for each in searched}
        self._strangers = any(each not in _TORCH_GPU and not is_a_family(each) for each in self._missing)
        self._torch_is_there = all(name in view.base.by_name for name in _TORCH_CORE)

    def whose(self, wanted: NeededSymbol) -> Whose:
        if wanted.source:
            return self._of_versioned(wanted)
        if is_pythons(wanted.name):
            return Whose.PYTHON if self._view.python_exported else Whose.EXPLAINED
        return self._of_torch(wanted.name) if is_torchs(wanted.name) else self._of_others(wanted.name)

    def _of_versioned(self, wanted: NeededSymbol) -> Whose:
        provider = self._scope.by_name.get(wanted.source)
        if provider is None:
            return Whose.EXPLAINED
        try:
            offered = provider.symbols.offered_versions()
        except CannotRead:
            return Whose.UNJUDGED
        # CUDA libraries keep one version name (libnvJitLink.so.12) and add symbols to it, so the version decides
        # nothing.
        return Whose.OTHER if wanted.version.decode("ascii", "replace") in offered else Whose.EXPLAINED

    def _of_torch(self, name: bytes) -> Whose:
        if not self._torch_is_there or self._uncertain:
            return Whose.UNJUDGED
        if self._missing & _TORCH_GPU and may_be_gpu_part(name):
            return Whose.EXPLAINED
        if self._strangers and not is_surely_torchs(name):
            return Whose.UNJUDGED
        # Exported by one of torch's libraries that the extension does not link: it works when another module loads that
        # library with RTLD_GLOBAL.
        return Whose.UNJUDGED if self._view.torch_exports(name) else Whose.TORCH

    def _of_others(self, name: bytes) -> Whose:
        library = family(name)
        if library is None and self._strangers:
            return Whose.EXPLAINED  # libsox.so is missing, and sox_open_read with it
        if library is None or self._uncertain:
            return Whose.UNJUDGED
        if library in self._missing:
            return Whose.EXPLAINED
        return Whose.OTHER if library in self._present else Whose.UNJUDGED


class _Finder:
    """Looks up names where the loader would; caches the results for the base libraries across extensions."""

    def __init__(self, libraries: list[Loaded], view: LoaderView) -> None:
        self.libraries = libraries
        self._view = view
        self._base = [each for each in libraries if view.base.by_identity.get(each.elf.identity) is each]
        self._own = [each for each in libraries if view.base.by_identity.get(each.elf.identity) is not each]
        self._by_soname = {each.elf.soname: each for each in self._base}
        self._known = view.found.setdefault(tuple(map(id, self._base)), {})
        self.unreadable: dict[str, Unreadable] = dict(view.damaged)

    def finds(self, wanted: NeededSymbol) -> bool:
        hashed = gnu_hash(wanted.name)
        key = wanted.name, wanted.version
        in_base = self._known.get(key)
        if in_base is None:
            # The library named with the version comes first: it nearly always has the symbol.
            source = self._by_soname.get(wanted.source) if wanted.source else None
            in_base = (source is not None and self._exports(source, wanted, hashed)) or any(
                self._exports(each, wanted, hashed) for each in self._base
            )
            self._known[key] = in_base
        return in_base or any(self._exports(each, wanted, hashed) for each in self._own)

    def _exports(self, library: Loaded, wanted: NeededSymbol, hashed: int) -> bool:
        path = library.elf.path
        if path in self.unreadable:
            return False
        try:
            return library.symbols.exports(wanted.name, hashed, wanted.version)
        except CannotRead as problem:
            self.unreadable[path] = problem.about(Path(path))
            if library.elf.identity in self._view.base.by_identity:
                self._view.damaged[path] = self.unreadable[path]
            return False


def _string_abi_of(names: Iterable[bytes]) -> StringAbi | None:
    """The one ABI on which all of torch's symbols among them agree, or None."""
    telling = (name for name in names if (b"Ss" in name or b"cxx11" in name) and is_torchs(name))
    seen = {abi for abi in map(string_abi, telling) if abi is not None}
    return seen.pop() if len(seen) == 1 else None


def _spelled(names: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(name.decode("utf-8", "backslashreplace") for name in names)
