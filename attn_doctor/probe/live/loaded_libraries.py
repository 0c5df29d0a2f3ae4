"""The cuDNN, cuBLAS, NVRTC and NCCL that a process has really loaded: whose they are, and which other copies there are.

The process is a child that imported torch and ran its sample (patient/loaded_libraries.py). Which file the loader would
take, by files alone: binaries/cuda_libraries.py.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attn_doctor.machine.target import Target
from attn_doctor.model.facts import Fact
from attn_doctor.probe.binaries.search import SearchPath
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.packages.packages import Inventory
from attn_doctor.probe.packages.requirements import read_line
from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Family:
    """A library with its parts."""

    called: str
    file: str
    """Name of the library itself, without its major version."""
    packages: str
    """How the distributions begin that bring it."""


_KNOWN: Mapping[str, _Family] = {
    "cudnn": _Family("cuDNN", "libcudnn.so", "nvidia-cudnn"),
    "cublas": _Family("cuBLAS", "libcublas.so", "nvidia-cublas"),
    "nvrtc": _Family("NVRTC", "libnvrtc.so", "nvidia-cuda-nvrtc"),
    "nccl": _Family("NCCL", "libnccl.so", "nvidia-nccl"),
}
_HOW = "/proc/self/maps of the process that imported torch and ran the sample"
_VERSIONED = re.compile(r"\.so\.(\d+(?:\.\d+)+)$")


def probe(
    answer: Mapping[str, Any] | None, inventory: Inventory, target: Target, environment: Mapping[str, str]
) -> tuple[Fact, ...]:
    """The facts. `answer`: what the patient says is mapped; None where it came to no sample."""
    notes = FactNotes()
    if answer is None and "torch" not in inventory.modules and inventory.of("torch") is None:
        notes.known("listed.loaded", 0, "no torch")
    elif answer is None or answer.get("files") is None:
        reason = "torch's sample was not reached" if answer is None else "the kernel does not list what is mapped"
        notes.unknown("listed.loaded", _HOW, reason)
    else:
        places = _Places(inventory, target, environment)
        families = [family for family in _KNOWN if any(one["family"] == family for one in answer["files"])]
        for family in families:
            files = [one for one in answer["files"] if one["family"] == family]
            _note(notes, family, files, answer.get("versions") or {}, places)
        notes.known("listed.loaded", len(families), _HOW)
    return notes.facts()


def _note(
    notes: FactNotes, family: str, files: list[dict[str, Any]], versions: Mapping[str, Any], places: _Places
) -> None:
    """Adds the facts of one family; its first file stands for it, the library itself where that is mapped."""
    own = f"loaded.{family}."
    main = next((one["path"] for one in files if one["main"]), files[0]["path"])
    notes.known(own + "library", _KNOWN[family].called, _HOW)
    notes.known(own + "path", main, _HOW)
    notes.known(own + "source", places.source(main), _HOW)
    folders = tuple(dict.fromkeys(str(Path(one["path"]).parent) for one in files))
    notes.known(own + "folders", folders, _HOW)
    notes.known(own + "copies", _copies(files), _HOW)
    notes.known_or_absent(own + "declared", places.declared(family), "Requires-Dist of torch")

    said = versions.get(main) or {}
    named = _VERSIONED.search(main)
    version = str(said["version"]) if "version" in said else named[1] if named else None
    if version is not None:
        notes.known(own + "version", version, "asked by its own function" if "version" in said else "its file's name")
    else:
        notes.unknown(own + "version", "asked by its own function", str(said.get("reason") or "it was not asked"))

    others = tuple(path for path in places.copies(family, main) if not _same(path, main))
    notes.known_or_absent(own + "others", others, "wheels, LD_LIBRARY_PATH, the environment, the system", "none")
    _note_wheel(notes, family, main, version, places)


def _copies(files: list[dict[str, Any]]) -> int:
    """The most folders that files of one major version come from: another major version is another library."""
    folders: dict[str, set[Path]] = {}
    for file in files:
        folders.setdefault(_major(file["path"]), set()).add(Path(file["path"]).parent)
    return max(map(len, folders.values()))


def _note_wheel(notes: FactNotes, family: str, main: str, version: str | None, places: _Places) -> None:
    """Adds which copy an nvidia-* wheel brought, and whether another one is loaded in its place."""
    own = f"loaded.{family}."
    how = "the nvidia-* packages on sys.path"
    wheel = places.wheel(family, main)
    if wheel is None:
        for name in ("wheel_path", "wheel_version", "differs"):
            notes.absent(own + name, how, "no wheel brings it under that name")
        return
    notes.known(own + "wheel_path", wheel, how)
    brought = places.wheel_version(family)
    if brought is None:
        notes.unknown(own + "wheel_version", how, "several packages bring it, or none says so", asked=False)
    else:
        notes.known(own + "wheel_version", brought, how)
    if _same(wheel, main):
        notes.known(own + "differs", False, how)
    elif version is None or brought is None:
        notes.unknown(own + "differs", how, "another file is loaded, and one of the two versions is not known")
    else:
        parts = [tuple(one.split(".")) for one in (version, brought)]
        least = min(map(len, parts))
        notes.known(own + "differs", parts[0][:least] != parts[1][:least], how)


class _Places:
    """Where copies of these libraries can lie, and which packages bring them."""

    def __init__(self, inventory: Inventory, target: Target, environment: Mapping[str, str]) -> None:
        self._inventory = inventory
        self._sites = [str(site) for site in target.search_path]
        self._lib = str(target.prefix / "lib")
        self._preloaded = environment.get("LD_PRELOAD", "").replace(":", " ").split()
        self._search = SearchPath(environment, Path("/"), _MACHINES.get(os.uname().machine, 0))

    def source(self, path: str) -> str:
        """Whose place the file lies in, in a few words."""
        if any(_same(path, one) for one in self._preloaded):
            return "LD_PRELOAD"
        folders = [
            *((folder, "nvidia wheel") for site in self._sites for folder in _folders_of_wheels(site)),
            *((f"{site}/torch/lib", "torch's own folder") for site in self._sites),
            *((folder, "LD_LIBRARY_PATH") for folder in self._search.library_path),
            (self._lib, "the environment's lib"),
        ]
        for folder, words in folders:
            # Also a link to the file, as package caches and system folders have them.
            if any(_same(path, f"{folder}/{name}") for name in _names(path)):
                return words
        named = any(_same(path, one) for name in _names(path) for one, _ in self._search.system(name))
        return "the system" if named else "elsewhere"

    def copies(self, family: str, main: str) -> Iterator[str]:
        """Every file of the library's name that the loader could come to, of the same major version."""
        folders = [
            *self._search.library_path,
            *(folder for site in self._sites for folder in _folders_of_wheels(site)),
            *(f"{site}/torch/lib" for site in self._sites),
            self._lib,
        ]
        seen: set[str] = set()
        name = _with_major(family, main)
        for path in (*(f"{folder}/{name}" for folder in folders), *(one for one, _ in self._search.system(name))):
            real = os.path.realpath(path)
            if Path(real).exists() and real not in seen:
                seen.add(real)
                yield path

    def wheel(self, family: str, main: str) -> str | None:
        """The file of that name that an nvidia-* package brought, the first on sys.path."""
        name = _with_major(family, main)
        paths = (f"{folder}/{name}" for site in self._sites for folder in _folders_of_wheels(site))
        return next((path for path in paths if Path(path).exists()), None)

    def wheel_version(self, family: str) -> str | None:
        """The version of the package that brings it; None where more than one does."""
        versions = [
            source.version
            for name, source in self._inventory.everything.items()
            if name.startswith(_KNOWN[family].packages) and source.version is not None
        ]
        return versions[0] if len(versions) == 1 else None

    def declared(self, family: str) -> str | None:
        """What torch's metadata asks for, as in `nvidia-cudnn-cu12==9.10.2.21`."""
        torch = self._inventory.everything.get("torch")
        lines = [read_line(text) for text in torch.requires] if torch is not None else []
        asked = [one for one in lines if one is not None and one.name.startswith(_KNOWN[family].packages)]
        return f"{asked[0].name}{asked[0].specifier}" if asked else None


#: ELF's number for the kinds of processors that ld.so.cache is read for.
_MACHINES: Mapping[str, int] = {"x86_64": 62, "aarch64": 183, "ppc64le": 21, "riscv64": 243}


def _folders_of_wheels(site: str) -> list[str]:
    """The folders of nvidia-* packages that hold libraries."""
    try:
        with os.scandir(f"{site}/nvidia") as entries:
            return sorted(f"{one.path}/lib" for one in entries)
    except OSError:
        return []


def _with_major(family: str, path: str) -> str:
    """The name that programs are linked with: `libcudnn.so.9` of libcudnn.so.9.10.2."""
    name, major = _KNOWN[family].file, _major(path)
    return f"{name}.{major}" if major else name


def _major(path: str) -> str:
    found = re.search(r"\.so\.(\d+)", Path(path).name)
    return found[1] if found else ""


def _names(path: str) -> tuple[str, ...]:
    """Its file name, and those of the links that usually lead to it."""
    base = Path(path).name
    stem, _, numbers = base.partition(".so.")
    if not numbers:
        return (base,)
    parts = numbers.split(".")
    return tuple(f"{stem}.so.{'.'.join(parts[:count])}" for count in range(len(parts), 0, -1))


def _same(one: str, other: str) -> bool:
    try:
        return Path(one).samefile(other)
    except OSError:
        return False
