"""The attention libraries: one file for each, with everything that attn-doctor knows of it.

To add one: a file here with a `LIBRARY`. What is long may lie beside it, in files that bear its name and end in
`_stand_in` or `_trials`. No torch is imported until one is asked to do something.
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
    """The library whose functions or methods that module holds."""
    for library in LIBRARIES:
        if any(re.match(where, module) for where, *_ in (*library.functions, *library.methods)):
            return library
    return None


def version_of(library: Library) -> str:
    """The installed version, by whichever name it is there; empty where it is not, or is torch's own."""
    for name in (*library.distributions, *library.also_called):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


__all__ = ["LIBRARIES", "Library", "of_module", "version_of"]
