"""Parses the literals of the files in patient/libraries/, for model/libraries.py in a checkout and for the build.

This module imports nothing else of attn-doctor, because the build loads it by its path.
"""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

_RECORD = "\nLIBRARY = Library("


def compile_libraries(folder: Path) -> str:
    """The records in the files below the folder, as JSON text."""
    return json.dumps(read(folder), separators=(",", ":"))


def read(folder: Path) -> list[dict[str, Any]]:
    """Parses the literals of each file's record; returns them in the order that the records give."""
    found = []
    for file in sorted(folder.glob("*.py")):
        _, record, rest = file.read_text(encoding="utf-8").partition(_RECORD)
        if record:
            call = ast.parse((record + rest).lstrip("\n")).body[0]
            assert isinstance(call, ast.Assign)
            found.append(_data(call.value))
    return sorted(found, key=lambda row: row["order"])


def _data(node: ast.expr) -> Any:
    """The value of a literal; for a record, its literal arguments. Raises ValueError for an expression that would have
    to be run.
    """
    if isinstance(node, ast.Call):
        found = {}
        for one in node.keywords:
            with suppress(ValueError):
                found[str(one.arg)] = _data(one.value)
        return found
    if isinstance(node, ast.Tuple):
        return [_data(one) for one in node.elts]
    return ast.literal_eval(node)
