"""Whether a published torch has a symbol, as far as its wheel was opened; data: recipes/known_wheels.json."""

from __future__ import annotations

import json

from attn_doctor.recipes.kept import bundled_folder

TABLE = "known_wheels.json"


def has_symbol(version: str, symbol: str) -> bool | None:
    """True where the opened wheels of that release, or of that very build, export it; None where none was opened, where
    they differ, or where it was not looked for.
    """
    release, _, build = version.partition("+")
    read = json.loads((bundled_folder() / TABLE).read_bytes())
    name = symbol.partition("@")[0]
    rows = [
        row for of, row in read["torch"].items() if of.partition("+")[0] == release and (not build or of == version)
    ]
    if name not in read["symbols"] or not rows:
        return None
    number = read["symbols"].index(name)
    told = {None if number >= row["of"] else number not in row["lacks"] for row in rows}
    return told.pop() if len(told) == 1 else None
