"""The dynamic loader, played on paper: which libraries a process has, and which an extension would get.

A `LoaderView` is one interpreter after `import torch`. It opens each library once and judges nothing (judgement.py).

What `import torch` loads, and how it falls back on the CUDA libraries of the nvidia-* wheels, is
torch/__init__.py's `_load_global_deps` and `_preload_cuda_deps` (2.13).
"""

from __future__ import annotations

import glob
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from .reader import MACHINES, ElfFile
from .search import Found, SearchPath
from .symbols import Symbols, gnu_hash
from .unreadable import CannotRead, Reason, Unreadable

#: Wheel folder and library, in the order in which torch loads them.
_PRELOADED = (
    ("cublas", "libcublasLt"),
    ("cublas", "libcublas"),
    ("cudnn", "libcudnn"),
    ("cuda_nvrtc", "libnvrtc"),
    ("cuda_nvrtc", "libnvrtc-builtins"),
    ("cuda_runtime", "libcudart"),
    ("cuda_cupti", "libcupti"),
    ("cufft", "libcufft"),
    ("curand", "libcurand"),
    ("nvjitlink", "libnvJitLink"),
    ("cusparse", "libcusparse"),
    ("cusparselt", "libcusparseLt"),
    ("cusolver", "libcusolver"),
    ("nccl", "libnccl"),
    ("nvshmem", "libnvshmem_host"),
    ("cufile", "libcufile"),
    ("nvtx", "libnvToolsExt"),
)

_IN_EVERY_PYTHON = b"PyObject_GetAttr"

#: On these the loader goes on to the next folder; on any other it gives up.
_PASSED_OVER = frozenset(
    {Reason.MISSING, Reason.NO_PERMISSION, Reason.NOT_A_FILE, Reason.OTHER_KIND, Reason.OTHER_MACHINE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingLibrary:
    """A needed library that the loader would not find."""

    name: str
    needed_by: Path
    lies_at: Path | None
    """A file of that name in an nvidia-* wheel: installed, but not where the loader looks."""


class Loaded:
    """A library in the process, with the one that asked for it first."""

    __slots__ = ("elf", "found", "parent", "symbols")

    def __init__(self, elf: ElfFile, symbols: Symbols, found: Found, parent: Loaded | None) -> None:
        self.elf = elf
        self.symbols = symbols
        self.found = found
        self.parent = parent

    def chain(self) -> tuple[ElfFile, ...]:
        """This file, the one that loaded it, and so on up to the executable."""
        files = [self.elf]
        parent = self.parent
        while parent is not None:
            files.append(parent.elf)
            parent = parent.parent
        return tuple(files)


class Scope:
    """What a process has loaded, by every name the loader knows it under."""

    __slots__ = ("by_identity", "by_name", "libraries", "missing", "unreadable")

    def __init__(self, base: Scope | None = None) -> None:
        self.libraries: list[Loaded] = list(base.libraries) if base else []
        self.by_name: dict[str, Loaded] = dict(base.by_name) if base else {}
        self.by_identity: dict[tuple[int, int], Loaded] = dict(base.by_identity) if base else {}
        self.missing: list[MissingLibrary] = []
        self.unreadable: list[Unreadable] = []

    def add(self, library: Loaded) -> None:
        """Takes a library in."""
        self.libraries.append(library)
        self.by_identity.setdefault(library.elf.identity, library)
        if library.elf.soname:
            self.by_name.setdefault(library.elf.soname, library)


class LoaderView:
    """One interpreter, as the loader sees it after `import torch`. Close it, or use it in `with`."""

    def __init__(
        self,
        *,
        torch_lib: Path | None,
        interpreter: Path | None,
        site_packages: tuple[Path, ...] = (),
        environment: Mapping[str, str] | None = None,
        root: Path = Path("/"),
    ) -> None:
        """Never raises on what it finds: what cannot be read is in `unreadable`.

        Args:
            torch_lib: torch's lib folder; None when there is no torch.
            interpreter: the Python that runs, itself and not a script around it (`sys.executable`).
            site_packages: the interpreter's, in the order of `sys.path`.
            environment: the patient's; LD_LIBRARY_PATH and LD_PRELOAD count.
            root: put before /etc/ld.so.cache, its entries and the default folders; for tests.
        """
        self.torch_lib = torch_lib
        self.site_packages = tuple(str(folder) for folder in site_packages)
        self._opened: dict[str, tuple[ElfFile, Symbols] | CannotRead] = {}
        self.base = Scope()
        self.found_in_base: dict[tuple[bytes, bytes], bool] = {}
        """Symbol and version -> whether a library of `base` exports it; kept across extensions."""
        self.damaged: dict[str, Unreadable] = {}
        """Libraries of `base` that broke off during a look-up."""
        self._unloaded: list[Symbols] | None = None
        environment = environment or {}
        self._executable = self._start(interpreter) if interpreter else None
        if self._executable is not None:
            self.machine = self._executable.elf.machine
        else:
            self.machine = self._machine_without_interpreter()
        self._search = SearchPath(environment, root, self.machine)
        if self._executable:
            for name in environment.get("LD_PRELOAD", "").replace(":", " ").split():
                self._take(name, self._executable, self.base)
            self._follow([self._executable], self.base)
        self._import_torch()
        self.python_exported = any(_exports(each.symbols, _IN_EVERY_PYTHON) for each in self.base.libraries)

    def close(self) -> None:
        """Closes every library."""
        for opened in self._opened.values():
            if isinstance(opened, tuple):
                opened[0].close()

    def __enter__(self) -> LoaderView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What is asked of it

    def load(self, path: Path) -> tuple[Loaded, Scope]:
        """The extension, and all that the process would have after loading it.

        Raises CannotRead when the extension itself cannot be read.
        """
        elf, symbols = self._open(str(path.absolute()))
        self._check_machine(elf)
        scope = Scope(self.base)
        extension = Loaded(elf, symbols, Found.LOADED, self._executable)
        scope.add(extension)
        self._follow([extension], scope)
        return extension, scope

    def find(self, name: str) -> Loaded | None:
        """A library by the interpreter's own search, or None. Loads nothing."""
        return self._take(name, self._executable, Scope(self.base)) if self._executable else None

    def torch_exports_unloaded(self, name: bytes) -> bool:
        """Whether a library in torch's folder exports it that `import torch` does not load."""
        if self._unloaded is None:
            self._unloaded = []
            for path in _glob(str(self.torch_lib), "*.so") if self.torch_lib else ():
                try:
                    elf, symbols = self._open(path)
                except CannotRead:
                    continue
                if elf.identity not in self.base.by_identity:
                    self._unloaded.append(symbols)
        return any(_exports(symbols, name) for symbols in self._unloaded)

    def torch_has_file(self, name: str) -> bool:
        """Whether torch's lib folder holds this file."""
        return self.torch_lib is not None and (self.torch_lib / name).exists()

    def is_private(self, library: Loaded) -> bool:
        """Whether it came with the extension's package: not loaded by torch, and no system library."""
        if self.base.by_identity.get(library.elf.identity) is not None:
            return False
        return library.found is Found.BESIDE or any(
            library.elf.path.startswith(folder + "/") for folder in self.site_packages
        )

    # How it is built

    def _start(self, interpreter: Path) -> Loaded | None:
        try:
            # The kernel resolves links before the loader sees the executable: a venv's python has its base's $ORIGIN.
            # Path.resolve raises on a circle of links before Python 3.13.
            elf, symbols = self._open(os.path.realpath(interpreter))
        except CannotRead as problem:
            self.base.unreadable.append(problem.about(interpreter))
            return None
        started = Loaded(elf, symbols, Found.LOADED, None)
        self.base.add(started)
        return started

    def _machine_without_interpreter(self) -> int:
        try:
            if self.torch_lib is not None:
                return self._open(f"{self.torch_lib}/libc10.so")[0].machine
        except CannotRead:
            pass
        return next((number for number, name in MACHINES.items() if name == platform.machine()), 0)

    def _import_torch(self) -> None:
        if self.torch_lib is None:
            return
        first = f"{self.torch_lib}/libtorch_global_deps.so"
        trial = Scope(self.base)
        self._take_file(first, trial)
        if trial.missing:
            # Nothing of it stays loaded; torch then loads the wheels' libraries by their paths, and tries again.
            self._preload()
            self._take_file(first, self.base)
        else:
            trial.missing = self.base.missing
            trial.unreadable += self.base.unreadable
            self.base = trial
            if any(name.startswith("libcudart.so") for name in self.base.by_name):
                self._preload()
        self._take_file(f"{self.torch_lib}/libtorch_python.so", self.base)

    def _preload(self) -> None:
        for folder, library in _PRELOADED:
            for site in self.site_packages:
                # Since CUDA 13 the wheels share one folder, nvidia/cu13.
                found = [
                    *_glob(site, f"nvidia/{folder}/lib/{library}.so.*[0-9]"),
                    *_glob(site, f"nvidia/cu[0-9]*/lib/{library}.so.*[0-9]"),
                ]
                if found:
                    self._take_file(found[0], self.base)
                    break

    def _take_file(self, path: str, scope: Scope) -> None:
        """What dlopen() of a path does."""
        try:
            elf, symbols = self._open(path)
            self._check_machine(elf)
        except CannotRead as problem:
            scope.unreadable.append(problem.about(Path(path)))
            return
        if elf.identity not in scope.by_identity:
            library = Loaded(elf, symbols, Found.LOADED, self._executable)
            scope.add(library)
            self._follow([library], scope)

    def _follow(self, waiting: list[Loaded], scope: Scope) -> None:
        """Loads what they need, and what that needs, breadth first as the loader does."""
        while waiting:
            asking = waiting.pop(0)
            for name in asking.elf.needed:
                if name not in scope.by_name:
                    taken = self._take(name, asking, scope)
                    if taken is not None:
                        waiting.append(taken)

    def _take(self, name: str, asking: Loaded, scope: Scope) -> Loaded | None:
        """Finds one needed library; None when it was there under another name, or is not to be found."""
        for path, found in self._candidates(name, asking):
            try:
                elf, symbols = self._open(path)
                self._check_machine(elf)
            except CannotRead as problem:
                if problem.reason in _PASSED_OVER:
                    continue
                scope.unreadable.append(problem.about(Path(path)))
                return None
            known = scope.by_identity.get(elf.identity)
            if known is not None:
                scope.by_name[name] = known
                return None
            library = Loaded(elf, symbols, found, asking)
            scope.add(library)
            scope.by_name[name] = library
            return library
        scope.missing.append(
            MissingLibrary(name=name, needed_by=Path(asking.elf.path), lies_at=self._in_a_wheel(name))
        )
        return None

    def _candidates(self, name: str, asking: Loaded) -> list[tuple[str, Found]]:
        if "/" in name:
            return [(name, Found.RPATH)]
        chain = asking.chain()
        beside = asking.elf.path.rpartition("/")[0]
        listed = list(self._search.candidates(name, chain))
        if any(asking.elf.path.startswith(folder + "/") for folder in self.site_packages):
            listed.append((f"{beside}/{name}", Found.BESIDE))
        return listed

    def _in_a_wheel(self, name: str) -> Path | None:
        for site in self.site_packages:
            for path in _glob(site, f"nvidia/*/lib/{glob.escape(name)}"):
                return Path(path)
        return None

    def _open(self, path: str) -> tuple[ElfFile, Symbols]:
        known = self._opened.get(path)
        if known is None:
            try:
                elf = ElfFile(path)
                try:
                    known = elf, Symbols(elf)
                except CannotRead:
                    elf.close()
                    raise
            except CannotRead as problem:
                known = problem
            self._opened[path] = known
        if isinstance(known, CannotRead):
            raise known
        return known

    def _check_machine(self, elf: ElfFile) -> None:
        if elf.machine != self.machine:
            raise CannotRead(Reason.OTHER_MACHINE, elf.machine_name)


def _glob(folder: str, pattern: str) -> list[str]:
    # Not Path.glob: on a folder that cannot be read it raises on some Pythons (3.12) and not on others.
    return sorted(glob.glob(f"{glob.escape(folder)}/{pattern}"))  # noqa: PTH207


def _exports(symbols: Symbols, name: bytes) -> bool:
    try:
        return symbols.exports(name, gnu_hash(name))
    except CannotRead:
        return False
