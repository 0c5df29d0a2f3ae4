"""Where the shelf is read from: the wheel, what the tests of a checkout kept of it, or its sources."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

#: The folder beside a checkout's recipes (in them it would go into wheels) in which its tests keep these files, and the
#: one of what they were made of.
KEPT, MADE_OF = ".compiled", "made_of.json"


def bundled_folder() -> Path:
    """The recipes inside the installed wheel, or the checkout's recipes/ during development."""
    package = Path(__file__).resolve().parent.parent
    inside_wheel = package / "_bundled_recipes"
    return inside_wheel if inside_wheel.is_dir() else package.parent / "recipes"


@cache
def file_of(folder: Path, name: str) -> Path | None:
    """The compiled file of a wheel, or one that was kept beside a checkout's recipes as they are now; None where the
    sources are to be read.
    """
    if (folder / name).is_file():
        return folder / name
    return folder.parent / KEPT / name if _is_kept(folder) and (folder.parent / KEPT / name).is_file() else None


@cache
def _is_kept(folder: Path) -> bool:
    try:
        made_of = json.loads((folder.parent / KEPT / MADE_OF).read_bytes())
    except (OSError, ValueError):
        return False
    return bool(made_of == sources(folder))


def sources(folder: Path) -> list[list[str | int]]:
    """Name, time and size of every file that the compiled ones are made of or by."""
    own = Path(__file__).resolve().parent
    by = (own / name for name in ("compiled.py", "literals.py", "loosened.py"))
    named = [(file.name, file.stat()) for file in by]
    named += [(str(file.relative_to(folder)), file.stat()) for file in sorted(folder.rglob("*.toml"))]
    return [[name, state.st_mtime_ns, state.st_size] for name, state in named]
