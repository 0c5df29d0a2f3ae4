"""The attention libraries: one file for each, with everything that attn-doctor knows of it.

To add one: a file here with a `LIBRARY`, and its name below. No torch is imported until one is asked to do something.
"""

from __future__ import annotations

import re
from typing import Optional

from . import fla, flash_attn_2, flash_attn_3, flash_attn_4, flex, sage, transformer_engine, xformers
from .library import Library

LIBRARIES = tuple(
    one.LIBRARY for one in (flash_attn_2, flash_attn_3, flash_attn_4, xformers, fla, sage, flex, transformer_engine)
)


def of_module(module: str) -> Optional[Library]:
    """The library whose functions or methods that module holds."""
    for library in LIBRARIES:
        if any(re.match(where, module) for where, *_ in (*library.functions, *library.methods)):
            return library
    return None


__all__ = ["LIBRARIES", "Library", "of_module"]
