"""Symbol versions: the newest GLIBC and GLIBCXX that a library needs, and the ones that libstdc++ offers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from attn_doctor.quick_dataclasses import dataclass

from .loader import LoaderView
from .process import Loaded, Scope
from .unreadable import CannotRead, Reason, Unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionNeed:
    """The newest version of one kind that an extension, or a library that comes with it, needs."""

    version: str
    """Digits only: 2.32, 3.4.30."""
    library: str
    """The library that must offer it: libc.so.6, libstdc++.so.6."""
    needed_by: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingVersion:
    """A symbol version that the library which would be loaded does not have, so that the loader refuses."""

    version: str
    """As in the loader's message: GLIBCXX_3.4.32."""
    library: str
    provider: Path
    needed_by: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Libstdcxx:
    """The libstdc++.so.6 that an extension would get, and the newest versions it offers, digits only."""

    path: Path
    glibcxx: str
    cxxabi: str


def newest_needed(libraries: Iterable[Loaded], prefix: str) -> VersionNeed | None:
    """The newest version of a kind (`GLIBC_`) that any of them needs, or None. Raises CannotRead."""
    best: tuple[tuple[int, ...], VersionNeed] | None = None
    for library in libraries:
        for wanted in library.symbols.wanted_versions():
            order = _order(wanted.version, prefix)
            if order and (best is None or order > best[0]):
                need = VersionNeed(
                    version=wanted.version.removeprefix(prefix),
                    library=wanted.source,
                    needed_by=Path(library.elf.path),
                )
                best = order, need
    return best[1] if best else None


def missing_versions(libraries: Iterable[Loaded], scope: Scope) -> tuple[MissingVersion, ...]:
    """The versions that they need and that the loaded libraries do not define. Raises CannotRead."""
    found = []
    for library in libraries:
        for wanted in library.symbols.wanted_versions():
            provider = scope.by_name.get(wanted.source)
            if provider is None or wanted.weak:
                continue
            offered = provider.symbols.offered_versions()
            # A library without definitions makes the loader warn and continue; one without even a version table makes
            # it abort the process at the first look-up ("Inconsistency detected by ld.so: ... check_match", seen with
            # glibc 2.36).
            if wanted.version not in offered and (offered or not provider.symbols.versioned):
                found.append(
                    MissingVersion(
                        version=wanted.version,
                        library=wanted.source,
                        provider=Path(provider.elf.path),
                        needed_by=Path(library.elf.path),
                    )
                )
    return tuple(found)


def offered_glibcxx(view: LoaderView) -> Libstdcxx | Unreadable:
    """The versions that the libstdc++ loaded after `import torch` offers.

    Without torch: of the one that the interpreter's own search finds.
    """
    name = "libstdc++.so.6"
    library = view.base.by_name.get(name) or view.find(name)
    if library is None:
        return Unreadable(path=Path(name), reason=Reason.MISSING, detail="the loader would not find it")
    try:
        offered = library.symbols.offered_versions()
    except CannotRead as problem:
        return problem.about(Path(library.elf.path))
    return Libstdcxx(
        path=Path(library.elf.path), glibcxx=_newest(offered, "GLIBCXX_"), cxxabi=_newest(offered, "CXXABI_")
    )


def _newest(versions: Iterable[str], prefix: str) -> str:
    ordered = sorted((order, version) for version in versions if (order := _order(version, prefix)))
    return ordered[-1][1].removeprefix(prefix) if ordered else ""


def _order(version: str, prefix: str) -> tuple[int, ...]:
    """Numbers to compare; empty for another kind, and for GLIBC_PRIVATE, GLIBCXX_LDBL_3.4 and similar names."""
    digits = version.removeprefix(prefix)
    if digits == version:
        return ()
    parts = digits.split(".")
    numbers = all(part.isascii() and part.isdecimal() and len(part) < 9 for part in parts)
    return tuple(int(part) for part in parts) if numbers else ()
