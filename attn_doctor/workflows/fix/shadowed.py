"""Of which folders of a target a shadow is made, and what room that takes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from pathlib import Path

from attn_doctor.fix.packages.installed import dependants, every_installed
from attn_doctor.fix.shadow import copying_kind, is_library
from attn_doctor.machine.target import Target
from attn_doctor.model.plans import PackageChange


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


def copying(target: Target, home: str, changes: Collection[PackageChange]) -> tuple[str, ...]:
    """What a person should know where the shadow is no tree of links; empty elsewhere."""
    folders = folders_of(target, whole=has_its_own_folder(target))
    kind = copying_kind((*folders, os.path.realpath(target.told["purelib"])), os.path.realpath(home))
    if not kind:
        return ()
    every = every_installed(map(str, target.search_path))
    names = frozenset(one.name for one in changes)
    changing = [one for one in every if one.name in names]
    if all(one.source.endswith("-none-any.whl") for one in changes) and not any(
        is_library(file) for one in changing for file in one.recorded()
    ):
        files = (str(file) for one in (*changing, *dependants(every, names)) for file in one.files())
    else:
        files = (f"{place}/{name}" for folder in folders for place, _, found in os.walk(folder) for name in found)
    size = 0
    for file in files:
        with contextlib.suppress(OSError):
            size += os.lstat(file).st_size
    return (f"proving it copies up to {size / 2**20:.0f} MiB here: files cannot be linked without that on {kind}",)
