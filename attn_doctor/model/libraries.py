"""The attention libraries as data, read from their files in patient/libraries/.

Those files run in the patient's interpreter and are never imported here; the literals of their `LIBRARY` are parsed. A
wheel contains them as one JSON file (recipes/compiled.py), a checkout has the files themselves. This module imports
nothing else of attn-doctor, because the build loads it by its path.
"""

from __future__ import annotations

import ast
import json
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

COMPILED = "libraries.json"
_RECORD = "\nLIBRARY = Library("


@dataclass(frozen=True)
class Kernel:
    """One kernel that can be tried; patient/libraries/library.py (`Backend`) describes the fields."""

    name: str
    title: str
    whole: bool = False
    more_dtypes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Library:
    """One library; patient/libraries/library.py (`Library`) describes the fields."""

    name: str
    order: int
    module: str
    distributions: tuple[str, ...] = ()
    imports: str = ""
    extensions: tuple[str, ...] = ()
    kernels_in: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    attn_implementation: str = ""
    in_logs: tuple[str, ...] = ()
    checkouts: tuple[str, ...] = ()
    symbols: tuple[tuple[str, str], ...] = ()
    newest: str = ""
    backends: tuple[Kernel, ...] = ()
    samples: tuple[str, ...] = ()
    """Names of its samples, without dtypes."""

    @property
    def top_level(self) -> str:
        """The top-level module that its distribution installs."""
        return self.module.partition(".")[0]

    @property
    def key(self) -> str:
        """Its name in requests to the tracer."""
        return self.distributions[0].replace("-", "_") if self.distributions else self.name


@cache
def libraries() -> tuple[Library, ...]:
    """All libraries, in the order in which they are listed."""
    here = Path(__file__).parent
    compiled = here / COMPILED
    rows = json.loads(compiled.read_bytes()) if compiled.is_file() else read(here.parent / "patient" / "libraries")
    return tuple(_library(row) for row in rows)


def published() -> tuple[Library, ...]:
    """The libraries with distributions of their own, which excludes those that are part of torch."""
    return tuple(library for library in libraries() if library.distributions)


def distributions() -> tuple[str, ...]:
    """The distributions of all libraries."""
    return tuple(name for library in libraries() for name in library.distributions)


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


def _library(row: dict[str, Any]) -> Library:
    kernels = tuple(Kernel(**_of(Kernel, one)) for one in row.get("backends", ()))
    samples = tuple(one["name"] for one in row.get("samples", ()))
    return Library(**{**_of(Library, row), "backends": kernels, "samples": samples})


def _of(kind: type[Any], row: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {name: _frozen(value) for name, value in row.items() if name in names}


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
