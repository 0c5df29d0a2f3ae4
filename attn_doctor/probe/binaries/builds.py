"""Packages with one build of an extension for each release of torch: which of the files this torch would load.

torch-c-dlpack-ext 0.1.5 contains libtorch_c_dlpack_addon_torch24-cpu.so to torch29-cuda.so and loads the one that fits
(its core.py). Examined against one torch, all the others look broken although they are never loaded.
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
    """The files that belong to a set of builds, but not to this torch (`gpu`: it is a build with GPU code).

    A torch version in a file name makes no set: a package with a single build loads that one. When torch's version
    cannot be read, the result is empty.
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
