"""Compiles the recipes, tables and attention libraries into JSON files when the wheel is built (hatchling calls
`get_build_hook`).

A hundred TOML files take longer to parse than the rest of `check --quick`. A checkout reads the sources, unless its
tests have kept such files beside them (`keep`) and no source has changed since. Imports nothing else of attn-doctor:
hatchling loads this file by its path, in an environment of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = "shelf.json"
COMPILED_FAMILIES = "families.json"
#: One JSON object after the other: what a recipe or a family is only asked for when it is told. Rows of the two above
#: have the place of theirs.
DETAILS, FAMILY_DETAILS = "shelf_details.json", "family_details.json"
#: The keys of a table that lie there.
DETAILED = ("remedy", "check", "case")
COMPILED_TABLES = "tables.json"
#: The other tables of the shelf that `check --quick` and `explain` read; dates in them become texts.
TABLES = (
    "checked.toml",
    "gpus.toml",
    "import/new_names.toml",
    "left.toml",
    "modules.toml",
    "packages.toml",
    "partners.toml",
    "programs.toml",
    "torch/releases.toml",
    "transformers/flash_since.toml",
)
#: The folder of the shelf that holds them, several to a file.
FAMILIES = "families"
#: As literals.py reads them.
COMPILED_LITERALS, COMPILED_PASTED = "literals.json", "pasted.json"
#: As model/libraries.py reads it.
LIBRARIES = "libraries.json"


def compile_shelf(folder: Path) -> str:
    """Every recipe below the folder, as JSON text: library, SHA-256 of the file, its table without details, and where
    these are.
    """
    return _heads(_recipes(folder))


def compile_details(folder: Path) -> str:
    """The details of every recipe, in the same order."""
    return "".join(map(_details, _recipes(folder)))


def compile_families(folder: Path) -> str:
    """Every family below the folder likewise."""
    return _heads(_families(folder))


def compile_family_details(folder: Path) -> str:
    """The details of every family, in the same order."""
    return "".join(map(_details, _families(folder)))


def compile_tables(folder: Path) -> str:
    """The other tables, by their names."""
    tables = {name: _read(folder / name)[1] for name in TABLES}
    return _json(tables)


def compile_literals(folder: Path) -> str:
    """What literals.py finds in the expressions of the recipes and families."""
    # In the build alone, of the checkout that is built: it imports nothing but the standard library.
    from attn_doctor.recipes.literals import compile_texts

    programs = _read(folder / "programs.toml")[1]
    told_by = (row["told_by"] for kind in ("program", "repository") for row in programs[kind] if "told_by" in row)
    return compile_texts((*_expressions(folder, "pattern", "unless", "nearby", "unless_nearby"), *told_by))


def compile_pasted(folder: Path) -> str:
    """What loosened.py makes of these, and what literals.py finds in that: for a second look alone."""
    from attn_doctor.recipes.loosened import compile_pasted  # as above

    return compile_pasted(_expressions(folder, "pattern"))


def keep(folder: Path) -> None:
    """Writes the files beside the recipes of a checkout, for the many processes that its tests start."""
    from attn_doctor.recipes.kept import KEPT, MADE_OF, sources  # for the tests of a checkout alone

    made_of = sources(folder)
    kept = folder.parent / KEPT
    kept.mkdir(exist_ok=True)
    (kept / MADE_OF).unlink(missing_ok=True)
    for name, compiled in _EVERY:
        (kept / name).write_bytes(compiled(folder).encode())  # places in them count bytes, and no line end is changed
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
    (DETAILS, compile_details),
    (COMPILED_FAMILIES, compile_families),
    (FAMILY_DETAILS, compile_family_details),
    (COMPILED_TABLES, compile_tables),
    (COMPILED_LITERALS, compile_literals),
    (COMPILED_PASTED, compile_pasted),
)

#: Library, SHA-256 of the file, table.
_Row = tuple[str, str, dict[str, Any]]


def _recipes(folder: Path) -> Iterator[_Row]:
    for file in sorted(folder.glob("*/*/recipe.toml")):
        yield (file.parent.parent.name, *_read(file))


def _families(folder: Path) -> Iterator[_Row]:
    for file in sorted((folder / FAMILIES).glob("*.toml")):
        digest, table = _read(file)
        yield from ((file.stem, digest, one) for one in table["family"])


def _expressions(folder: Path, *keys: str) -> Iterator[str]:
    for _, _, table in (*_recipes(folder), *_families(folder)):
        yield from (log[key] for log in table.get("log", ()) for key in keys if key in log)


def _heads(rows: Iterable[_Row]) -> str:
    found, at = [], 0
    for row in rows:
        library, digest, table = row
        head = {key: value for key, value in table.items() if key not in DETAILED}
        length = len(_details(row))  # ASCII: as many bytes
        found.append({"library": library, "sha256": digest, "table": head, "details": [at, length]})
        at += length
    return _json(found)


def _details(row: _Row) -> str:
    return _json({key: value for key, value in row[2].items() if key in DETAILED}) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, default=str, separators=(",", ":"))


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
                made.write_bytes(compiled(Path(self.root) / "recipes").encode())
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
