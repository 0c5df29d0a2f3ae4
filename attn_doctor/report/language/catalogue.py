"""The Chinese of what `say` says: `zh.toml`, a table of texts for each part of the reports."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from attn_doctor.formats import toml

FILE = Path(__file__).with_name("zh.toml")


#: The table of texts that other layers fill in; a slot is written as a fact is: {any.folder}.
_PATTERNS = "elsewhere"


@cache
def texts() -> Mapping[str, str]:
    """Each English text with its Chinese one."""
    tables = (table for name, table in _tables().items() if name != _PATTERNS)
    return {english: chinese for table in tables for english, chinese in table.items()}


def patterns() -> tuple[tuple[str, str], ...]:
    """Each English text of other layers with its Chinese one."""
    return tuple(_tables()[_PATTERNS].items())


@cache
def _tables() -> dict[str, dict[str, str]]:
    return toml.parse(FILE.read_text(encoding="utf-8"))
