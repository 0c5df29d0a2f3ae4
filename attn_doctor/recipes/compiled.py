"""Compiles the recipes, tables and attention libraries into JSON files when the wheel is built (hatchling calls
`get_build_hook`).

A hundred TOML files take longer to parse than the rest of `check --quick`. A checkout reads the sources, unless its
tests have kept such files beside them (`keep`) and no source has changed since. Imports nothing else of attn-doctor:
hatchling loads this file by its path, in an environment of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = "shelf.json"
COMPILED_FAMILIES = "families.json"
COMPILED_TABLES = "tables.json"
#: The other tables of the shelf that `check --quick` reads; dates in them become texts.
TABLES = ("checked.toml", "gpus.toml", "torch/releases.toml")
#: The folder of the shelf that holds them, several to a file.
FAMILIES = "families"
COMPILED_LITERALS = "literals.json"
#: As model/libraries.py reads it.
LIBRARIES = "libraries.json"


def compile_shelf(folder: Path) -> str:
    """Every recipe below the folder, as JSON text: library, SHA-256 of the file, and its table."""
    files = sorted(folder.glob("*/*/recipe.toml"))
    return _json((file.parent.parent.name, digest, table) for file in files for digest, table in (_read(file),))


def compile_families(folder: Path) -> str:
    """Every family below the folder likewise."""
    files = sorted((folder / FAMILIES).glob("*.toml"))
    read = ((file, *_read(file)) for file in files)
    return _json((file.stem, digest, one) for file, digest, table in read for one in table["family"])


def compile_tables(folder: Path) -> str:
    """The other tables, by their names."""
    tables = {name: _read(folder / name)[1] for name in TABLES}
    return json.dumps(tables, default=str, separators=(",", ":"))


def compile_literals(folder: Path) -> str:
    """What literals.py and loosened.py find in the expressions of the recipes and families."""
    # In the build alone, of the checkout that is built: they import nothing but the standard library.
    from attn_doctor.recipes.literals import compile_texts
    from attn_doctor.recipes.loosened import as_pasted

    rows = (*json.loads(compile_shelf(folder)), *json.loads(compile_families(folder)))
    return compile_texts((log["pattern"] for row in rows for log in row["table"].get("log", ())), as_pasted)


def keep(folder: Path) -> None:
    """Writes the files beside the recipes of a checkout, for the many processes that its tests start."""
    from attn_doctor.recipes.kept import KEPT, MADE_OF, sources  # for the tests of a checkout alone

    made_of = sources(folder)
    kept = folder.parent / KEPT
    kept.mkdir(exist_ok=True)
    (kept / MADE_OF).unlink(missing_ok=True)
    for name, compiled in _EVERY:
        (kept / name).write_text(compiled(folder))
    (kept / MADE_OF).write_text(json.dumps(made_of))  # last: without it the others count for nothing


def _read(file: Path) -> tuple[str, dict[str, Any]]:
    import hashlib  # for the build alone, as what follows

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    raw = file.read_bytes()
    return hashlib.sha256(raw).hexdigest(), tomllib.loads(raw.decode())


_EVERY = (
    (COMPILED, compile_shelf),
    (COMPILED_FAMILIES, compile_families),
    (COMPILED_TABLES, compile_tables),
    (COMPILED_LITERALS, compile_literals),
)


def _json(rows: Iterable[tuple[str, str, dict[str, Any]]]) -> str:
    found = [{"library": library, "sha256": digest, "table": table} for library, digest, table in rows]
    return json.dumps(found, default=str, separators=(",", ":"))


def get_build_hook() -> type[BuildHookInterface]:  # type: ignore[type-arg, unused-ignore]
    """Returns the build hook that puts the compiled recipes into the wheel; hatchling calls it."""
    # Not at the top: at run time only the file's name constant is used, even where hatchling is installed.
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class ShelfHook(BuildHookInterface):  # type: ignore[misc, type-arg, unused-ignore]
        PLUGIN_NAME = "custom"

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            self._made: list[Path] = []
            sys.path.insert(0, self.root)
            if version == "editable":  # an editable install reads the checkout itself
                return
            made = Path(self.directory) / COMPILED
            made.parent.mkdir(parents=True, exist_ok=True)
            for name, compiled in _EVERY:
                made = made.with_name(name)
                made.write_text(compiled(Path(self.root) / "recipes"))
                self._made.append(made)
                build_data["force_include"][str(made)] = f"attn_doctor/_bundled_recipes/{name}"
            for page in sorted((Path(self.root) / "docs").glob("*.md")):  # for `attn-doctor help`
                build_data["force_include"][str(page)] = f"attn_doctor/_bundled_docs/{page.name}"
            import runpy  # here, as above

            package = Path(self.root) / "attn_doctor"
            reader = runpy.run_path(str(package / "model" / "library_files.py"), run_name="library_files")
            made = made.with_name(LIBRARIES)
            made.write_text(reader["compile_libraries"](package / "patient" / "libraries"))
            self._made.append(made)
            build_data["force_include"][str(made)] = f"attn_doctor/model/{LIBRARIES}"

        def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
            """Leaves nothing beside what was built: whoever uploads takes all that lies in dist/."""
            for made in self._made:
                made.unlink(missing_ok=True)

    return ShelfHook
