"""CUDA libraries from another place that are loaded instead of those of the nvidia-* wheels, with which torch was
built.
"""

from __future__ import annotations

from pathlib import Path

from attn_doctor.quick_dataclasses import dataclass

from .loader import LoaderView
from .search import Found


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowedLibrary:
    """A library of a wheel, and the other file of that name that `import torch` loads instead."""

    name: str
    wheel_file: Path
    loaded_file: Path
    found: Found
    """How the loader finds it; usually by LD_LIBRARY_PATH."""


def shadowed_libraries(view: LoaderView) -> tuple[ShadowedLibrary, ...]:
    """The libraries of nvidia-* wheels that are replaced by other files; empty when none is."""
    found = []
    for wheel_file in view.wheel_libraries():
        loaded = view.base.by_name.get(wheel_file.name)
        if loaded is not None and not any(loaded.elf.path.startswith(f"{site}/") for site in view.site_packages):
            found.append(
                ShadowedLibrary(
                    name=wheel_file.name,
                    wheel_file=wheel_file,
                    loaded_file=Path(loaded.elf.path),
                    found=loaded.found,
                )
            )
    return tuple(found)
