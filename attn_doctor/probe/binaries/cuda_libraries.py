"""The identity of the compiled libraries that an attention stack would load.

RPATH, LD_LIBRARY_PATH, LD_PRELOAD and the wheels' folders decide which file is loaded, not metadata.
"""

from __future__ import annotations

import re
from pathlib import Path

from attn_doctor.probe import binaries as elf
from attn_doctor.probe.binaries.file_identity import identity
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.packages.packages import Inventory

#: Of the many libraries that torch loads: those that compute, choose kernels or communicate with other nodes, and the
#: two that differ most between nodes. libc's libraries are covered by the node's glibc version.
_MATTER = re.compile(
    r"lib(torch_(cuda|hip|cpu|python)|c10|c10_(cuda|hip)|nccl|rccl|cudnn|cudart|cublas|cublasLt|cusparseLt|nvrtc"
    r"|nvshmem_host|amdhip64|stdc\+\+|gomp)\.so"
)
_HOW = "the file that the loader would take for torch, its build id and size"
#: Loaded by path when their package is imported: not among torch's dependencies.
_BY_PATH = (("triton", "_C/libtriton.so"),)


def note(notes: FactNotes, view: elf.LoaderView, inventory: Inventory) -> None:
    """Adds facts about the libraries that `import torch` would load, and those that packages load by path."""
    found: dict[str, Path] = {}
    for library in view.base.libraries:
        name = library.elf.soname or Path(library.elf.path).name
        if _MATTER.match(name):
            found.setdefault(name, Path(library.elf.path))
    for module, inner in _BY_PATH:
        folder = inventory.modules.get(module)
        if folder is not None and (folder / inner).exists():
            found.setdefault(Path(inner).name, folder / inner)
    for name, file in found.items():
        notes.known(f"library.{name}.path", str(file), _HOW)
        told = identity(file)
        if isinstance(told, elf.Unreadable):
            notes.unknown(f"library.{name}.identity", _HOW, str(told))
        else:
            notes.known(f"library.{name}.identity", told, _HOW)
    # A file that exists and cannot be read is not absent.
    for unreadable in view.base.unreadable:
        if _MATTER.match(unreadable.path.name) and unreadable.path.name not in found:
            notes.known(f"library.{unreadable.path.name}.path", str(unreadable.path), _HOW)
            notes.unknown(f"library.{unreadable.path.name}.identity", _HOW, str(unreadable))
    notes.known("listed.library", len(found), _HOW)
