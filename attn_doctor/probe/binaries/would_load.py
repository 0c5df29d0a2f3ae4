"""Decides from files alone whether an extension would load with this torch, and if not, why.

Returns facts as they are in the files; recipes decide what they mean (rebuild, other wheel, other torch).
"""

from __future__ import annotations

import re
from pathlib import Path

from attn_doctor.quick_dataclasses import dataclass

from .judgement import judge
from .loader import LoaderView
from .mangled import StringAbi
from .process import Loaded, MissingLibrary, Scope
from .search import Found
from .unreadable import CannotRead, Unreadable
from .versions import MissingVersion, VersionNeed, missing_versions, newest_needed

#: CUDA libraries by name and major version; auditwheel adds a hash (`libcudart.41118559.so.12`).
_CUDA_LIBRARY = re.compile(
    r"(lib(?:cudart|cublas|cublasLt|cudnn|cufft|curand|cusolver|cusparse|cusparseLt|nvrtc|nvJitLink|nvjpeg|nccl))"
    r"(\.[0-9a-f]{8})?\.so\.([0-9]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededLibrary:
    """One DT_NEEDED entry of the extension itself."""

    name: str
    path: Path | None
    found: Found | None
    """None when the loader would not find it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaLibrary:
    """A CUDA library in the extension's DT_NEEDED."""

    name: str
    major: int
    bundled: bool
    """A copy of its own, under a name that no other package uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """A compiled extension, examined. Tuples are in the file's order, symbols as the file spells them."""

    path: Path
    size: int
    """Bytes."""
    build_id: str | None
    """Hexadecimal NT_GNU_BUILD_ID; most wheels have one, some linkers write none."""
    soname: str

    needed: tuple[NeededLibrary, ...]
    missing_libraries: tuple[MissingLibrary, ...]
    """Includes those that its libraries need, but not those that torch itself lacks (`LoaderView.base.missing`)."""
    unreadable_libraries: tuple[Unreadable, ...]

    missing_torch_symbols: tuple[str, ...]
    """torch's symbols that the installed torch does not export: the extension was built for another torch."""
    missing_other_symbols: tuple[str, ...]
    """Symbols of another library that is present and does not export them: another version of it is loaded first."""
    missing_python_symbols: tuple[str, ...]
    """Symbols of the Python C API that this interpreter does not export: built for another Python."""
    unjudged_symbols: tuple[str, ...]
    """Found nowhere; the files do not show which library they belong to, or whether another module loads it first."""
    missing_versions: tuple[MissingVersion, ...]
    broken_dependencies: tuple[Path, ...]
    """Libraries of its own package that lack symbols or versions themselves."""

    needs_cuda_torch: bool
    """It links libc10_cuda or libtorch_cuda, and the installed torch is a build without CUDA."""
    needs_hip_torch: bool
    cxx11_abi: StringAbi | None
    """None when no torch symbol that it needs contains std::string."""
    cuda_libraries: tuple[CudaLibrary, ...]
    glibc_needed: VersionNeed | None
    glibcxx_needed: VersionNeed | None
    cxxabi_needed: VersionNeed | None

    @property
    def cudart_major(self) -> int | None:
        """Major version of the libcudart it needs; None when it links none, or only a copy of its own."""
        majors = [each.major for each in self.cuda_libraries if each.name == "libcudart" and not each.bundled]
        return majors[0] if majors else None

    @property
    def would_load(self) -> bool | None:
        """False: the loader would refuse it. None: the files do not decide. True: no obstacle was found."""
        if (
            self.missing_libraries
            or self.missing_torch_symbols
            or self.missing_other_symbols
            or self.missing_python_symbols
            or self.missing_versions
            or self.broken_dependencies
        ):
            return False
        return None if self.unjudged_symbols or self.unreadable_libraries else True


def examine_extension(extension: Path, view: LoaderView) -> Extension | Unreadable:
    """Examines one extension as the interpreter of `view` would load it after `import torch`.

    Never raises: returns Unreadable.
    """
    try:
        loaded, scope = view.load(extension)
        try:
            return _examine(loaded, scope, view)
        finally:
            view.release(scope)
    except CannotRead as problem:
        return problem.about(extension)


def _examine(loaded: Loaded, scope: Scope, view: LoaderView) -> Extension:
    elf = loaded.elf
    brought = [loaded]
    broken: list[Path] = []
    judgement = judge(loaded, loaded, scope, view)
    for library in scope.libraries[len(view.base.libraries) + 1 :]:
        if not view.is_private(library):
            continue
        path = Path(library.elf.path)
        try:
            if _is_broken(library, loaded, scope, view):
                broken.append(path)
            library.symbols.wanted_versions()
        except CannotRead as problem:
            scope.unreadable.append(problem.about(path))
            continue
        brought.append(library)
    cuda = (_CUDA_LIBRARY.fullmatch(name) for name in elf.needed)
    return Extension(
        path=Path(elf.path),
        size=elf.size,
        build_id=elf.build_id(),
        soname=elf.soname,
        needed=tuple(_needed(name, scope) for name in elf.needed),
        missing_libraries=tuple(scope.missing),
        unreadable_libraries=tuple(dict.fromkeys((*scope.unreadable, *judgement.unreadable))),
        missing_torch_symbols=judgement.torch,
        missing_other_symbols=judgement.other,
        missing_python_symbols=judgement.python,
        unjudged_symbols=judgement.unjudged,
        missing_versions=missing_versions([loaded], scope),
        broken_dependencies=tuple(broken),
        needs_cuda_torch=_lacks_flavour(scope, view, "cuda"),
        needs_hip_torch=_lacks_flavour(scope, view, "hip"),
        cxx11_abi=judgement.string_abi,
        cuda_libraries=tuple(
            CudaLibrary(name=match[1], major=int(match[3]), bundled=bool(match[2])) for match in cuda if match
        ),
        glibc_needed=newest_needed(brought, "GLIBC_"),
        glibcxx_needed=newest_needed(brought, "GLIBCXX_"),
        cxxabi_needed=newest_needed(brought, "CXXABI_"),
    )


def _is_broken(library: Loaded, extension: Loaded, scope: Scope, view: LoaderView) -> bool:
    """True when a library that comes with the extension lacks something. The first scope in which it is met decides."""
    path = library.elf.path
    if path not in view.broken:
        judgement = judge(library, extension, scope, view)
        view.broken[path] = bool(
            judgement.torch or judgement.other or judgement.python or missing_versions([library], scope)
        )
    return view.broken[path]


def _needed(name: str, scope: Scope) -> NeededLibrary:
    library = scope.by_name.get(name)
    return NeededLibrary(
        name=name,
        path=Path(library.elf.path) if library else None,
        found=library.found if library else None,
    )


def _lacks_flavour(scope: Scope, view: LoaderView, flavour: str) -> bool:
    """True when torch is installed, but not the build of it whose libraries are missing."""
    # Both files: new CUDA builds lack libtorch_cuda_cpp.so, which old ones had.
    absent = not any(view.torch_has_file(f"lib{part}_{flavour}.so") for part in ("c10", "torch"))
    wanted = re.compile(rf"lib(?:c10|torch)_{flavour}(?:_\w+)?\.so")
    return view.torch_has_file("libc10.so") and absent and any(wanted.fullmatch(each.name) for each in scope.missing)
