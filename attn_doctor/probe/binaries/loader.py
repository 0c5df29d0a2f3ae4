"""Simulates the dynamic loader: which libraries a process has, and which ones an extension would get.

A `LoaderView` represents one interpreter after `import torch`. It opens each library once; judgement.py evaluates the
result.

Which libraries `import torch` loads, and how it falls back to the CUDA libraries of the nvidia-* wheels, follows
`_load_global_deps` and `_preload_cuda_deps` of torch/__init__.py (2.13).
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from .process import Loaded, MissingLibrary, Scope
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

#: Errors after which the loader tries the next folder; after any other it gives up.
_PASSED_OVER = frozenset(
    {Reason.MISSING, Reason.NO_PERMISSION, Reason.NOT_A_FILE, Reason.OTHER_KIND, Reason.OTHER_MACHINE}
)


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
        """Simulates `import torch`. Never raises for a bad file; unreadable ones are in `unreadable`.

        Args:
            torch_lib: torch's lib folder; None when there is no torch.
            interpreter: the Python executable itself, not a script that starts it (`sys.executable`).
            site_packages: the interpreter's, in the order of `sys.path`.
            environment: the patient's environment variables; LD_LIBRARY_PATH and LD_PRELOAD are used.
            root: put before /etc/ld.so.cache, its entries and the default folders; for tests.
        """
        self.torch_lib = torch_lib
        self.site_packages = tuple(str(folder) for folder in site_packages)
        self._opened: dict[str, tuple[ElfFile, Symbols] | CannotRead] = {}
        self.base = Scope()
        self.found: dict[tuple[int, ...], dict[tuple[bytes, bytes], bool]] = {}
        """For some libraries of `base`: symbol and version -> whether one of them exports it; kept across
        extensions.
        """
        self.damaged: dict[str, Unreadable] = {}
        """Libraries of `base` that could not be read completely."""
        self.broken: dict[str, bool] = {}
        """Libraries that come with extensions -> whether they lack symbols or versions."""
        self._torchs: list[Symbols] | None = None
        environment = environment or {}
        self._executable = self._start(interpreter) if interpreter else None
        if self._executable is not None:
            self.machine = self._executable.elf.machine
        else:
            self.machine = self._machine_without_interpreter()
        self._search = SearchPath(environment, root, self.machine)
        if self._executable:
            self._follow([self._executable], self.base)
            self.base.share(self._executable)
            for name in environment.get("LD_PRELOAD", "").replace(":", " ").split():
                preloaded = self._take(name, self._executable, self.base)
                if preloaded is not None:
                    self._follow([preloaded], self.base)
                    self.base.share(preloaded)
        self._import_torch()
        self.python_exported = any(_exports(each.symbols, _IN_EVERY_PYTHON) for each in self.base.for_all)

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

    # Queries

    def load(self, path: Path) -> tuple[Loaded, Scope]:
        """The extension, and all libraries that the process would have after loading it.

        Raises CannotRead when the extension itself cannot be read.
        """
        elf, symbols = self._open(str(path.absolute()))
        self._check_machine(elf)
        scope = Scope(self.base)
        extension = Loaded(elf, symbols, Found.LOADED, self._executable)
        scope.add(extension)
        self._follow([extension], scope)
        return extension, scope

    def release(self, scope: Scope) -> None:
        """Closes the libraries loaded for an extension; a few hundred would exceed the process's limit of open
        files.
        """
        for library in scope.libraries[len(self.base.libraries) :]:
            if library.elf.identity not in self.base.by_identity:
                self._opened.pop(library.elf.path, None)
                library.elf.close()

    def find(self, name: str) -> Loaded | None:
        """Finds a library by the interpreter's own search, or None. Loads nothing."""
        return self._take(name, self._executable, Scope(self.base)) if self._executable else None

    def wheel_libraries(self) -> list[Path]:
        """The libraries in the nvidia-* wheels of all site-packages, the first of each name."""
        paths = [Path(path) for site in self.site_packages for path in _glob(site, "nvidia/*/lib/*.so*")]
        return list({path.name: path for path in reversed(paths)}.values())

    def torch_exports(self, name: bytes) -> bool:
        """True when a library in torch's folder exports it, loaded or not."""
        if self._torchs is None:
            self._torchs = []
            for path in _glob(str(self.torch_lib), "*.so") if self.torch_lib else ():
                try:
                    self._torchs.append(self._open(path)[1])
                except CannotRead:
                    continue
        return any(_exports(symbols, name) for symbols in self._torchs)

    def torch_has_file(self, name: str) -> bool:
        """True when torch's lib folder has this file."""
        return self.torch_lib is not None and (self.torch_lib / name).exists()

    def is_private(self, library: Loaded) -> bool:
        """True when it came with the extension's package: not loaded by torch, and not a system library."""
        if self.base.by_identity.get(library.elf.identity) is not None:
            return False
        return library.found is Found.BESIDE or any(
            library.elf.path.startswith(folder + "/") for folder in self.site_packages
        )

    # Construction

    def _start(self, interpreter: Path) -> Loaded | None:
        try:
            # The kernel resolves links before the loader sees the executable: a venv's python has the $ORIGIN of its
            # base. Path.resolve raises on a circle of links before Python 3.13.
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
                machine = int(self._open(f"{self.torch_lib}/libc10.so")[0].machine)
                if machine in MACHINES:  # else the file is damaged there
                    return machine
        except CannotRead:
            pass
        return next((number for number, name in MACHINES.items() if name == os.uname().machine), 0)

    def _import_torch(self) -> None:
        if self.torch_lib is None:
            return
        first = f"{self.torch_lib}/libtorch_global_deps.so"
        trial = Scope(self.base)
        self._take_file(first, trial, for_all=True)
        if trial.missing:
            # None of it stays loaded; torch then loads the wheels' libraries by their paths, and tries again.
            self._preload()
            self._take_file(first, self.base, for_all=True)
        else:
            trial.missing = self.base.missing
            trial.unreadable = self.base.unreadable + trial.unreadable
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

    def _take_file(self, path: str, scope: Scope, *, for_all: bool = False) -> None:
        """Loads a path as dlopen() does; `for_all` is RTLD_GLOBAL."""
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
            if for_all:
                scope.share(library)

    def _follow(self, waiting: list[Loaded], scope: Scope) -> None:
        """Loads the needed libraries, and their needs in turn, breadth first as the loader does."""
        while waiting:
            asking = waiting.pop(0)
            for name in asking.elf.needed:
                known = scope.by_name.get(name)
                if known is None and all(name != each.name for each in scope.missing):
                    known = self._take(name, asking, scope)
                    if known is not None and known.parent is asking:
                        waiting.append(known)
                if known is not None:
                    asking.needs.append(known)

    def _take(self, name: str, asking: Loaded, scope: Scope) -> Loaded | None:
        """Finds one needed library, which may be loaded already under another name; None when it cannot be found."""
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
                return known
            library = Loaded(elf, symbols, found, asking)
            scope.add(library)
            scope.by_name[name] = library
            return library
        scope.missing.append(MissingLibrary(name=name, needed_by=Path(asking.elf.path), lies_at=self._in_a_wheel(name)))
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
    # Not Path.glob: for an unreadable folder it raises on some Pythons (3.12) and not on others.
    return sorted(glob.glob(f"{glob.escape(folder)}/{pattern}"))  # noqa: PTH207


def _exports(symbols: Symbols, name: bytes) -> bool:
    try:
        return symbols.exports(name, gnu_hash(name))
    except CannotRead:
        return False
