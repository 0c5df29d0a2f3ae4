"""The attention libraries: one file for each, with everything that attn-doctor knows about it.

To add one: a file here with a `LIBRARY`. Long parts may be in separate files with the same prefix and the suffix
`_stand_in` or `_trials`. torch is imported only when one of them is called.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import re
from typing import Optional, Tuple

from .library import Library

_SHARED = ("calls", "contract", "library", "signatures", "stand_in")


def _all() -> Tuple[Library, ...]:
    names = [
        one.name
        for one in pkgutil.iter_modules(__path__)
        if one.name not in _SHARED and not one.name.endswith(("_stand_in", "_trials"))
    ]
    found = [importlib.import_module("." + name, __name__).LIBRARY for name in names]
    return tuple(sorted(found, key=lambda library: library.order))


LIBRARIES = _all()


def of_module(module: str) -> Optional[Library]:
    """The library whose functions or methods that module contains."""
    for library in LIBRARIES:
        if any(re.match(where, module) for where, *_ in (*library.functions, *library.methods)):
            return library
    return None


def version_of(library: Library) -> str:
    """The installed version, under any of its distribution names; empty when it is not installed or is part of
    torch.
    """
    for name in (*library.distributions, *library.also_called):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


__all__ = ["LIBRARIES", "Library", "of_module", "version_of"]
