"""A package that carries one build of an extension for each torch: which of its files this torch would load.

torch-c-dlpack-ext 0.1.5 ships libtorch_c_dlpack_addon_torch24-cpu.so to torch29-cuda.so and loads the one that fits
(its core.py). Held against one torch all the others are broken, and nobody loads them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from packaging.version import InvalidVersion, Version

_TORCH = re.compile(r"torch[_-]?(?P<major>\d)[._]?(?P<minor>\d{1,2})(?!\d)")
_GPU = re.compile(r"(?<![a-z0-9])(cpu|cuda|cu\d+|rocm\d*|hip)(?![a-z0-9])")


def for_other_torches(files: Iterable[Path], torch: str | None, *, gpu: bool) -> frozenset[Path]:
    """The files that belong to a set of builds, and not to this torch (`gpu`: a build with GPU code).

    A name that tells a torch makes no set by itself: one build under a telling name is what the package has. Of a
    torch whose version cannot be read none is told to be made for another one.
    """
    try:
        version = Version(torch or "")
    except InvalidVersion:
        return frozenset()
    sets: dict[str, list[tuple[Path, re.Match[str]]]] = defaultdict(list)
    for file in files:
        told = _TORCH.search(str(file))
        if told is not None:
            alike = _GPU.sub("*", _TORCH.sub("torch*", str(file)))
            sets[alike].append((file, told))
    others = set()
    for members in sets.values():
        if len({told[0] for _, told in members}) < 2:
            continue
        for file, told in members:
            same = (version.major, version.minor) == (int(told["major"]), int(told["minor"]))
            kinds = _GPU.findall(str(file))
            if not same or (kinds and (kinds[-1] == "cpu") is gpu):
                others.add(file)
    return frozenset(others)
