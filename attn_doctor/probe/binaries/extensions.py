"""Facts about compiled extensions, read as files: nothing is imported (the other files of this folder read them)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from attn_doctor.machine.target import Target
from attn_doctor.model.facts import Fact
from attn_doctor.probe import binaries as elf
from attn_doctor.probe.binaries import cuda_libraries, torch_libraries
from attn_doctor.probe.binaries.builds import for_other_torches
from attn_doctor.probe.binaries.file_identity import identity
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.packages.dist_info import Distribution
from attn_doctor.probe.packages.packages import Inventory

#: torch is what the others are compared with; NVIDIA's wheels contain no extensions of torch.
_NOT_EXTENSIONS = re.compile(r"torch$|nvidia-|pytorch-triton|triton$")
_GPU_LIBRARIES = ("libtorch_cuda.so", "libtorch_hip.so")
_LINKS_TORCH = re.compile(r"lib(torch|c10)[\w.]*$")
#: `_C.cpython-311-x86_64-linux-gnu.so`, `_C.cp311-linux_x86_64.so`; a `t` stands for a free-threaded Python.
_TAG = re.compile(r"\.(?:cpython-|cp)(\d+[td]*)\b[\w-]*\.so$")
#: More libraries than any attention stack has; each takes a millisecond or two.
_MOST_FILES = 400

_ATTRIBUTES = (
    "needed_libraries", "missing_libraries", "missing_symbols", "missing_other_symbols", "needs_cuda_torch",
    "cxx11_abi", "cudart_major", "glibc_needed", "glibcxx_needed", "gpu_code", "build_id", "identity",
)  # fmt: skip


def probe(inventory: Inventory, target: Target, environment: Mapping[str, str]) -> tuple[Fact, ...]:
    """Facts about every extension that links torch, torch's own ABI and GPU code, and the libstdc++ that would be
    loaded.
    """
    notes = FactNotes()
    torch = inventory.modules.get("torch")
    torch_lib = torch / "lib" if torch is not None else None
    with elf.LoaderView(
        torch_lib=torch_lib,
        interpreter=target.python,
        site_packages=target.search_path,
        environment=environment,
    ) as view:
        _note_libstdcxx(notes, view)
        cuda_libraries.note(notes, view, inventory)
        torch_libraries.note(notes, view, inventory)
        if torch_lib is not None:
            _note_torch(notes, torch_lib)
        count = 0
        tag = _own_tag(target)
        version = next((dist.version for dist in inventory.distributions if dist.name == "torch"), None)
        others = for_other_torches(
            [file for file, _, _ in _files(inventory)],
            version,
            gpu=torch_lib is not None and any((torch_lib / name).exists() for name in _GPU_LIBRARIES),
        )
        for module, file, package in _extensions(inventory, tag):
            if file in others:
                continue
            if isinstance(file, tuple):
                how = "file names beside it"
                notes.known(f"extension.{module}.other_python", file, how)
                continue
            count += _note_extension(notes, module, file, package, view)
        notes.known("listed.extension", count, "compiled modules of packages that need torch")
    return notes.facts()


def _note_libstdcxx(notes: FactNotes, view: elf.LoaderView) -> None:
    offered = elf.offered_glibcxx(view)
    how = "the libstdc++ that would be loaded, its symbol versions"
    if isinstance(offered, elf.Unreadable):
        notes.unknown("libstdcxx.version", how, str(offered))
        return
    notes.known("libstdcxx.path", str(offered.path), how)
    notes.known_or_absent("libstdcxx.version", offered.glibcxx or None, how)


def _note_torch(notes: FactNotes, lib: Path) -> None:
    how = f"symbols of {lib / 'libc10.so'}"
    abi = elf.torch_abi(lib)
    if isinstance(abi, elf.StringAbi):
        notes.known("torch.cxx11_abi", abi is elf.StringAbi.NEW, how)
    else:
        notes.unknown("torch.cxx11_abi", how, str(abi) if abi is not None else "it exports none of the telling symbols")
    for name in _GPU_LIBRARIES:
        if (lib / name).exists():
            _note_code(notes, "torch.arch_list", lib / name)
            return
    notes.absent("torch.arch_list", str(lib), "torch has no GPU library")


def _note_code(notes: FactNotes, name: str, file: Path) -> None:
    how = f"GPU code in {file}"
    code = elf.gpu_code(file)
    if isinstance(code, elf.Unreadable):
        notes.unknown(name, how, str(code))
    elif code.gaps:
        # An architecture that is not listed may still be in the unreadable part.
        notes.unknown(name, how, f"found {', '.join(code.all) or 'none'}, but: {code.gaps[0]}")
    else:
        notes.known_or_absent(name, (*code.sass, *code.ptx, *code.amd), how, "no GPU code")


def _note_extension(notes: FactNotes, module: str, file: Path, package: str, view: elf.LoaderView) -> bool:
    """Adds the facts of one extension; returns False for a library that does not use torch."""
    own = f"extension.{module}."
    how = f"read {file}"
    found = elf.examine_extension(file, view)
    if isinstance(found, elf.Unreadable):
        notes.known(own + "path", str(file), how)
        notes.known_or_absent(own + "package", package or None, how)
        for attribute in _ATTRIBUTES:
            notes.unknown(own + attribute, how, str(found))
        return True
    if not any(_LINKS_TORCH.match(library.name) for library in found.needed) and not found.missing_torch_symbols:
        return False
    notes.known(own + "path", str(file), how)
    notes.known_or_absent(own + "package", package or None, how)
    notes.known(own + "needed_libraries", tuple(library.name for library in found.needed), how)
    notes.known_or_absent(own + "missing_libraries", tuple(one.name for one in found.missing_libraries), how)
    doubt = "; ".join(str(one) for one in found.unreadable_libraries)
    # Without a torch, its symbols and those of its CUDA libraries are missing everywhere; another finding reports the
    # missing torch.
    if not doubt and found.unjudged_symbols and view.torch_lib is not None:
        doubt = f"nothing found exports {', '.join(found.unjudged_symbols[:3])}, and whose it is the files do not tell"
    for name, missing in (
        ("missing_symbols", found.missing_torch_symbols),
        ("missing_other_symbols", found.missing_other_symbols),
    ):
        if doubt and not missing:
            notes.unknown(own + name, how, doubt)
        else:
            notes.known_or_absent(own + name, missing, how, "none" if view.torch_lib else "no torch to hold it against")
    notes.known(own + "needs_cuda_torch", found.needs_cuda_torch, how)
    abi = found.cxx11_abi
    notes.known_or_absent(
        own + "cxx11_abi",
        None if abi is None else abi is elf.StringAbi.NEW,
        how,
        "no torch symbol speaks of std::string",
    )
    notes.known_or_absent(own + "cudart_major", found.cudart_major, how)
    for attribute, need in (("glibc_needed", found.glibc_needed), ("glibcxx_needed", found.glibcxx_needed)):
        notes.known_or_absent(own + attribute, need.version if need else None, how)
    _note_code(notes, own + "gpu_code", file)
    notes.known_or_absent(own + "build_id", found.build_id, how)
    told = identity(file)
    if isinstance(told, elf.Unreadable):
        notes.unknown(own + "identity", how, str(told))
    else:
        notes.known(own + "identity", told, how)
    return True


def _own_tag(target: Target) -> str:
    """`311`, `313t`: the Python version in the names of compiled modules that this interpreter imports.

    Its list of suffixes ends with a bare `.so`, which matches every file; only suffixes with a Python version are used.
    """
    named = (_TAG.search(f"module{suffix}") for suffix in target.told.get("extension_suffixes") or ())
    return next((one[1] for one in named if one), "".join(target.version.split(".")[:2]))


def _extensions(inventory: Inventory, own_tag: str) -> Iterator[tuple[str, Path | tuple[str, ...], str]]:
    """Yields (module, file or the names of the builds for other Pythons, distribution)."""
    seen: set[Path] = set()
    fitting: set[str] = set()
    foreign: dict[str, list[str]] = {}
    for file, folder, package in _files(inventory):
        if file in seen or len(seen) >= _MOST_FILES:
            continue
        seen.add(file)
        module = _module(file, folder)
        tag = _TAG.search(file.name)
        if tag and tag[1] != own_tag:
            foreign.setdefault(module, []).append(file.name)
            continue
        fitting.add(module)
        yield module, file, package
    for module, names in foreign.items():
        if module not in fitting:
            yield module, tuple(sorted(names)), ""


def _files(inventory: Inventory) -> Iterator[tuple[Path, Path, str]]:
    """Yields (file, folder from which the module name is derived, distribution)."""
    first: dict[str, Distribution] = {}
    for dist in inventory.distributions:
        first.setdefault(dist.name, dist)
    for dist in first.values():
        if _NOT_EXTENSIONS.match(dist.name):
            continue
        for name in dist.files:
            # RECORD may contain absolute paths and `..`: such a file is not a module of this folder.
            if Path(name).suffix == ".so" and ".libs/" not in name and ".." not in name and not name.startswith("/"):
                yield dist.folder / name, dist.folder, dist.name
        if dist.editable_at is not None:
            for file in sorted({*dist.editable_at.glob("*.so"), *dist.editable_at.glob("*/*.so")}):
                yield file, dist.editable_at, dist.name
    for path in inventory.modules.values():
        # Built in place or copied there: belongs to no distribution.
        if path.suffix == ".so":
            yield path, path.parent, ""


def _module(file: Path, folder: Path) -> str:
    relative = file.relative_to(folder)
    return ".".join((*relative.parts[:-1], relative.name.split(".", 1)[0]))
