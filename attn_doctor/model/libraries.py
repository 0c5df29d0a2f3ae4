"""The attention libraries as data, read from their files in patient/libraries/.

Those files run in the patient's interpreter and are never imported here; the literals of their `LIBRARY` are parsed. A
wheel contains them as one JSON file (recipes/compiled.py), a checkout has the files themselves (library_files.py).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from attn_doctor.quick_dataclasses import dataclass

#: As recipes/compiled.py names it.
COMPILED = "libraries.json"


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
    model_types: tuple[str, ...] = ()
    in_logs: tuple[str, ...] = ()
    in_messages: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    checkouts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
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
    if compiled.is_file():
        rows = json.loads(compiled.read_bytes())
    else:
        from attn_doctor.model import library_files

        rows = library_files.read(here.parent / "patient" / "libraries")
    return tuple(_library(row) for row in rows)


def published() -> tuple[Library, ...]:
    """The libraries with distributions of their own, which excludes those that are part of torch."""
    return tuple(library for library in libraries() if library.distributions)


def distributions() -> tuple[str, ...]:
    """The distributions of all libraries."""
    return tuple(name for library in libraries() for name in library.distributions)


def _library(row: dict[str, Any]) -> Library:
    kernels = tuple(Kernel(**_of(Kernel, one)) for one in row.get("backends", ()))
    samples = tuple(one["name"] for one in row.get("samples", ()))
    return Library(**{**_of(Library, row), "backends": kernels, "samples": samples})


def _of(kind: type[Any], row: dict[str, Any]) -> dict[str, Any]:
    return {name: _frozen(value) for name, value in row.items() if name in kind.__annotations__}


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
