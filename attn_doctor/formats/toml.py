"""TOML, read by the standard library's module or tomli, which are imported by the first text: few commands read one."""

from __future__ import annotations

import sys
from typing import Any


def parse(text: str) -> dict[str, Any]:
    """The table of a TOML text. Raises ValueError."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    parsed: dict[str, Any] = tomllib.loads(text)
    return parsed
