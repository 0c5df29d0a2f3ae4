"""The CUDA libraries that torch would load: which of them are missing, and the version of cuDNN."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from attn_doctor.probe import binaries as elf
from attn_doctor.probe.fact_notes import FactNotes
from attn_doctor.probe.packages.dist_info import Distribution
from attn_doctor.probe.packages.packages import Inventory

_HOW = "what the loader would find for torch's libraries"
#: Installed with the driver; an environment may be created on a node without one.
_DRIVERS = re.compile(r"lib(cuda|nvidia-[\w-]+|cudadebugger|amdhip64|hsa-runtime64|rocm\w*)\.so")
_CUDNN = re.compile(r"libcudnn\.so")


def note(notes: FactNotes, view: elf.LoaderView, inventory: Inventory) -> None:
    """Adds facts about the libraries that `import torch` would not find, and the version of cuDNN from its wheel."""
    if view.torch_lib is None:
        notes.absent("torch.missing_libraries", _HOW, "no torch")
        notes.absent("torch.cudnn", _HOW, "no torch")
        return
    missing = tuple(dict.fromkeys(one.name for one in view.base.missing if not _DRIVERS.match(one.name)))
    if not missing and view.base.unreadable:
        notes.unknown("torch.missing_libraries", _HOW, str(view.base.unreadable[0]))
    else:
        notes.known_or_absent("torch.missing_libraries", missing, _HOW, "none")
    _note_cudnn(notes, view, inventory.distributions)


def _note_cudnn(notes: FactNotes, view: elf.LoaderView, distributions: Iterable[Distribution]) -> None:
    found = [Path(one.elf.path) for one in view.base.libraries if _CUDNN.match(Path(one.elf.path).name)]
    if not found:
        if any(one.elf.soname.startswith("libtorch_cuda") for one in view.base.libraries):
            # Linked into torch itself, or missing.
            notes.unknown("torch.cudnn", _HOW, "the files do not tell which cuDNN torch loads", asked=False)
        else:
            notes.absent("torch.cudnn", _HOW, "torch loads none")
        return
    file = found[0]
    owner = next((dist for dist in distributions if _brings(dist, file)), None)
    if owner is None or owner.version is None:
        notes.unknown("torch.cudnn", _HOW, f"no package says of which version {file} is", asked=False)
        return
    notes.known("torch.cudnn", ".".join(owner.version.split(".")[:3]), f"{owner.info}, which brings {file}")


def _brings(dist: Distribution, file: Path) -> bool:
    return dist.name.startswith("nvidia-cudnn") and any(dist.folder / one == file for one in dist.files)
