"""Looks an extension's undefined symbols up in all that would be loaded, and says whose the missing ones are.

Only what can be judged is called missing: a symbol that may live in a library which is itself missing is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from .loader import Loaded, LoaderView, Scope
from .mangled import StringAbi, string_abi
from .owners import family, is_a_family, is_pythons, is_surely_torchs, is_torchs, may_be_gpu_part, stem
from .symbols import Wanted, gnu_hash
from .unreadable import CannotRead, Unreadable

_TORCH_CORE = ("libc10.so", "libtorch_cpu.so", "libtorch_python.so")
_TORCH_GPU = frozenset(
    {"libc10_cuda", "libtorch_cuda", "libtorch_cuda_cpp", "libtorch_cuda_cu", "libc10_hip", "libtorch_hip"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Undefined symbols of one library that nothing exports, by whose they are."""

    torch: tuple[str, ...]
    other: tuple[str, ...]
    python: tuple[str, ...]
    unjudged: tuple[str, ...]
    unreadable: tuple[Unreadable, ...]
    string_abi: StringAbi | None


def judge(library: Loaded, scope: Scope, view: LoaderView) -> Judgement:
    """Raises CannotRead when the library itself cannot be read; what it depends on may be unreadable."""
    wanted = library.symbols.wanted()
    finder = _Finder(scope, view)
    nowhere = [each for each in wanted if not finder.finds(each)]
    court = _Court(scope, view, uncertain=bool(finder.unreadable or scope.unreadable))
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
    """What a symbol that nothing exports is put down to."""

    TORCH = "torch's"
    OTHER = "another library's that is there"
    PYTHON = "the interpreter's"
    UNJUDGED = "cannot be told"
    EXPLAINED = "a missing library, a missing version or another build of torch"


class _Court:
    """Decides whose a missing symbol is."""

    def __init__(self, scope: Scope, view: LoaderView, *, uncertain: bool) -> None:
        self._scope = scope
        self._view = view
        self._uncertain = uncertain
        self._missing = {stem(each.name) for each in scope.missing}
        self._present = {stem(name) for name in scope.by_name}
        self._torch_is_there = all(name in view.base.by_name for name in _TORCH_CORE)

    def whose(self, wanted: Wanted) -> Whose:
        if wanted.source:
            return self._of_versioned(wanted)
        if is_pythons(wanted.name):
            return Whose.PYTHON if self._view.python_exported else Whose.EXPLAINED
        return self._of_torch(wanted.name) if is_torchs(wanted.name) else self._of_others(wanted.name)

    def _of_versioned(self, wanted: Wanted) -> Whose:
        provider = self._scope.by_name.get(wanted.source)
        if provider is None:
            return Whose.EXPLAINED
        try:
            offered = provider.symbols.offered_versions()
        except CannotRead:
            return Whose.UNJUDGED
        # CUDA libraries keep one version name (libnvJitLink.so.12) and add symbols to it: no help from it there.
        return Whose.OTHER if wanted.version.decode("ascii", "replace") in offered else Whose.EXPLAINED

    def _of_torch(self, name: bytes) -> Whose:
        if not self._torch_is_there or self._uncertain:
            return Whose.UNJUDGED
        if self._missing & _TORCH_GPU and may_be_gpu_part(name):
            return Whose.EXPLAINED
        strangers = any(stem(each) not in _TORCH_GPU and not is_a_family(each) for each in self._missing)
        if strangers and not is_surely_torchs(name):
            return Whose.UNJUDGED
        # Exported by a library of torch's that nobody links: works if something loads it globally.
        return Whose.UNJUDGED if self._view.torch_exports_unloaded(name) else Whose.TORCH

    def _of_others(self, name: bytes) -> Whose:
        library = family(name)
        if library is None or self._uncertain:
            return Whose.UNJUDGED
        if library in self._missing:
            return Whose.EXPLAINED
        return Whose.OTHER if library in self._present else Whose.UNJUDGED


class _Finder:
    """Looks names up in a scope; remembers across extensions what the base scope has."""

    def __init__(self, scope: Scope, view: LoaderView) -> None:
        self._scope = scope
        self._view = view
        count = len(view.base.libraries)
        self._base = scope.libraries[:count]
        self._own = scope.libraries[count:]
        self.unreadable: dict[str, Unreadable] = dict(view.damaged)

    def finds(self, wanted: Wanted) -> bool:
        hashed = gnu_hash(wanted.name)
        key = wanted.name, wanted.version
        in_base = self._view.found_in_base.get(key)
        if in_base is None:
            in_base = self._in_source(wanted, hashed) or any(
                self._exports(each, wanted, hashed) for each in self._base
            )
            self._view.found_in_base[key] = in_base
        return in_base or any(self._exports(each, wanted, hashed) for each in self._own)

    def _in_source(self, wanted: Wanted, hashed: int) -> bool:
        """The library that the version names, if torch has loaded it: nearly always the one."""
        source = self._view.base.by_name.get(wanted.source) if wanted.source else None
        return source is not None and self._exports(source, wanted, hashed)

    def _exports(self, library: Loaded, wanted: Wanted, hashed: int) -> bool:
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
    """The one ABI that all of torch's symbols among them agree on, or None."""
    telling = (name for name in names if (b"Ss" in name or b"cxx11" in name) and is_torchs(name))
    seen = {abi for abi in map(string_abi, telling) if abi is not None}
    return seen.pop() if len(seen) == 1 else None


def _spelled(names: Iterable[bytes]) -> tuple[str, ...]:
    return tuple(name.decode("utf-8", "backslashreplace") for name in names)
