"""Of which folders of a target a shadow is made, and what room that takes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from attn_doctor.fix.shadow import copying_kind
from attn_doctor.machine.target import Target


def has_its_own_folder(target: Target) -> bool:
    """True for a virtual environment, which has an interpreter of its own."""
    return bool(target.told["prefix"] != target.told["base_prefix"])


def folders_of(target: Target, *, whole: bool) -> tuple[str, ...]:
    """The folders to make shadows of: the environment, or its site folders."""
    if whole:
        return (os.path.realpath(target.prefix),)
    found: dict[str, None] = {}
    for one in (target.told["purelib"], target.told["platlib"], *map(str, target.search_path)):
        real = os.path.realpath(one)
        if real.endswith(("site-packages", "dist-packages")) and Path(real).is_dir():
            found[real] = None
    return tuple(found)


def copying(target: Target, home: str) -> tuple[str, ...]:
    """What a person should know where the shadow is no tree of links; empty elsewhere."""
    folders = folders_of(target, whole=has_its_own_folder(target))
    kind = copying_kind((*folders, os.path.realpath(target.told["purelib"])), os.path.realpath(home))
    if not kind:
        return ()
    size = 0
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                with contextlib.suppress(OSError):
                    size += os.lstat(f"{place}/{name}").st_size
    return (f"proving it copies up to {size / 2**30:.1f} GiB here: files cannot be linked without that on {kind}",)
