"""Finds and reads recipe folders: the bundled recipes, and folders named with --recipes. Never the current folder.

A recipe can install packages, so it counts as code: each one records its file and SHA-256.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput, BrokenRecipe
from attn_doctor.formats import toml
from attn_doctor.machine import faults
from attn_doctor.model.digests import sha256
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.build import build, build_family
from attn_doctor.recipes.compiled import (
    COMPILED,
    COMPILED_FAMILIES,
    COMPILED_TABLES,
    DETAILS,
    FAMILIES,
    FAMILY_DETAILS,
    TABLES,
)
from attn_doctor.recipes.kept import bundled_folder, file_of
from attn_doctor.recipes.recipe import Recipe

#: What was read, by file or folder and its time.
_READ: dict[tuple[Path, int], tuple[Recipe, ...]] = {}
#: Largest recipe file, in bytes; a larger one is a mistake and is not read.
_MOST_BYTES = 1_000_000


@cache
def table(name: str) -> dict[str, Any]:
    """One of the bundled tables beside the recipes, such as `gpus.toml`."""
    folder = bundled_folder()
    compiled = file_of(folder, COMPILED_TABLES) if name in TABLES else None
    if compiled is not None:
        tables: dict[str, dict[str, Any]] = json.loads(compiled.read_bytes())
        return tables[name]
    return toml.parse((folder / name).read_text(encoding="utf-8"))


def bundled() -> tuple[Recipe, ...]:
    """Every bundled recipe, by id."""
    folder = bundled_folder()
    compiled = file_of(folder, COMPILED)
    if compiled is None or file_of(folder, DETAILS) is None:
        return _kept(folder, partial(_read_folder, folder, named=False))
    return _kept(compiled, partial(_read_compiled, compiled, folder))


def families() -> tuple[Recipe, ...]:
    """Every bundled family: used for messages without a recipe."""
    folder = bundled_folder()
    compiled = file_of(folder, COMPILED_FAMILIES)
    if compiled is None or file_of(folder, FAMILY_DETAILS) is None:
        return _kept(folder / FAMILIES, partial(_read_families, folder, named=False))
    return _kept(compiled, partial(_read_compiled_families, compiled, folder))


def _kept(source: Path, read: Callable[[], tuple[Recipe, ...]]) -> tuple[Recipe, ...]:
    """The result of `read` for this file or folder, cached for the process unless something in it is faulty.

    To build the thousand recipes takes a while, seconds from a checkout's TOML: once for a process that explains many
    logs.
    """
    key = (source, source.stat().st_mtime_ns)
    if key not in _READ:
        recipes = read()
        if faults.met():
            return recipes
        _READ[key] = recipes
    return _READ[key]


def _read_compiled(file: Path, folder: Path) -> tuple[Recipe, ...]:
    details = file.with_name(DETAILS).read_bytes()
    built = (
        faults.survive("reading of a bundled recipe", partial(_built, one, folder, details), lambda _reason: None)
        for one in json.loads(file.read_bytes())
    )
    return tuple(recipe for recipe in built if recipe is not None)


def _read_compiled_families(file: Path, folder: Path) -> tuple[Recipe, ...]:
    rows, details = json.loads(file.read_bytes()), file.with_name(FAMILY_DETAILS).read_bytes()
    return tuple(_family(row, folder / FAMILIES / f"{row['library']}.toml", "", details) for row in rows)


def _detailed(details: bytes, place: tuple[int, int]) -> dict[str, Any]:
    """Remedies and cases of one recipe. They were read with its row: an update may replace the files meanwhile."""
    start, length = place
    told: dict[str, Any] = json.loads(details[start : start + length])
    return told


def _read_families(folder: Path, *, named: bool) -> tuple[Recipe, ...]:
    found: list[Recipe] = []
    for file in sorted((folder / FAMILIES).glob("*.toml")):
        found += faults.survive(
            f"reading of families {file}", partial(_families_of, file, named=named), lambda _reason: []
        )
    return tuple(found)


def _families_of(file: Path, *, named: bool) -> list[Recipe]:
    table, digest = _table(file)
    if named:
        _check_families(table, file)
    try:
        return [
            _family({"library": file.stem, "sha256": digest, "table": one}, file, str(file) if named else "")
            for one in table["family"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        _check_families(table, file)
        raise


def _family(row: dict[str, Any], file: Path, origin: str, details: bytes | None = None) -> Recipe:
    return build_family(
        row["table"],
        library=row["library"],
        origin=origin or f"bundled {FAMILIES}/{row['library']} {row['table']['id']}",
        file=file,
        sha256=row["sha256"],
        details=None if details is None else partial(_detailed, details, row["details"]),
    )


def _check_families(table: dict[str, Any], file: Path) -> None:
    from attn_doctor.recipes.schema import family_file

    family_file.check(table, origin=str(file))


def _built(one: dict[str, Any], folder: Path, details: bytes) -> Recipe:
    return build(
        one["table"],
        library=one["library"],
        origin=_bundled_origin(one["library"], one["table"]["id"]),
        file=folder / one["library"] / one["table"]["id"] / "recipe.toml",
        sha256=one["sha256"],
        details=partial(_detailed, details, one["details"]),
    )


def _bundled_origin(library: str, id_: str) -> str:
    return f"bundled {library}/{id_}"


def named(folder: Path) -> tuple[Recipe, ...]:
    """Every recipe of a folder named with --recipes.

    Raises BadInput when the folder does not exist or is empty, BrokenRecipe for the first faulty file and for two
    entries of one id.
    """
    if not folder.is_dir():
        raise BadInput(
            "there is no such recipe folder",
            about=f"--recipes {folder}",
            hint="Name a folder that holds <library>/<trouble>/recipe.toml.",
        )
    recipes = (*_read_folder(folder, named=True), *_read_families(folder, named=True))
    if not recipes:
        raise BadInput(
            "the recipe folder holds no recipe",
            about=f"--recipes {folder}",
            hint="Recipes lie at <library>/<trouble>/recipe.toml below it.",
        )
    _check_ids(recipes)
    return recipes


def shelf(folders: Iterable[Path] = ()) -> tuple[Recipe, ...]:
    """The bundled recipes and families and those of the named folders; a named one replaces the bundled one of the same
    id."""
    recipes = {recipe.id: recipe for recipe in (*bundled(), *families())}
    for folder in folders:
        for recipe in named(folder):
            recipes[recipe.id] = recipe
    return tuple(recipes[id_] for id_ in sorted(recipes) if recipes[id_].status != "withdrawn")


def _read_folder(folder: Path, *, named: bool) -> tuple[Recipe, ...]:
    read = (
        faults.survive(f"reading of recipe {file}", partial(_read, file, named=named), lambda _reason: None)
        for file in sorted(folder.glob("*/*/recipe.toml"))
    )
    return tuple(recipe for recipe in read if recipe is not None)


def _read(file: Path, *, named: bool) -> Recipe:
    origin = str(file) if named else _bundled_origin(file.parent.parent.name, file.parent.name)
    table, digest = _table(file)
    if named:
        _check(table, file, origin)
    try:
        return build(table, library=file.parent.parent.name, origin=origin, file=file, sha256=digest)
    except (KeyError, TypeError, ValueError, AttributeError):
        _check(table, file, origin)
        raise


def _check(table: dict[str, Any], file: Path, origin: str) -> None:
    from attn_doctor.recipes.schema import recipe_file

    recipe_file.check(table, folder=file.parent.name, origin=origin)


def _table(file: Path) -> tuple[dict[str, Any], str]:
    hint = "Mend the file, or leave its folder out."
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise BrokenRecipe("the recipe file is too large", about=f"file: {file}", hint=hint)
        raw = file.read_bytes()
        return toml.parse(raw.decode()), sha256(raw).hexdigest()
    except OSError as error:
        raise BrokenRecipe(f"the recipe cannot be read: {error.strerror}", about=f"file: {file}", hint=hint) from None
    except UnicodeDecodeError:
        raise BrokenRecipe("the recipe is not UTF-8 text", about=f"file: {file}", hint=hint) from None
    except ValueError as error:
        raise BrokenRecipe(f"the recipe is not TOML: {error}", about=f"file: {file}", hint=hint) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The recipes selected by options: ids, aliases or library names."""

    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    def pick(self, recipes: tuple[Recipe, ...]) -> tuple[Recipe, ...]:
        """The recipes to evaluate.

        Raises BadInput for an unknown name, and when no recipe is left.
        """
        ids = frozenset(recipe.id for recipe in recipes)
        for flag, wanted in (("--only", self.only), ("--skip", self.skip)):
            for name in wanted:
                if not any(_named(recipe, name, ids) for recipe in recipes):
                    raise BadInput(
                        f"there is no recipe and no library {name!r}",
                        about=f"{flag} {name}",
                        hint=f"{meant(name, recipes, libraries=True)}`attn-doctor recipes list` prints them all.",
                    )
        picked = tuple(
            recipe
            for recipe in recipes
            if (not self.only or any(_named(recipe, name, ids) for name in self.only))
            and not any(_named(recipe, name, ids) for name in self.skip)
        )
        if recipes and not picked:
            raise BadInput(
                "they leave no recipe to judge by, so nothing could be found",
                about=" ".join([*(f"--only {one}" for one in self.only), *(f"--skip {one}" for one in self.skip)]),
                hint="Leave one of them out.",
            )
        return picked


def _named(recipe: Recipe, name: str, ids: frozenset[str]) -> bool:
    # An alias may be the id of a more general recipe: then only that one is selected.
    return name in (recipe.id, recipe.library) or (name in recipe.aliases and name not in ids)


def meant(name: str, recipes: Iterable[Recipe], *, libraries: bool = False) -> str:
    """`Did you mean A or B? `: the ids like a name, with `libraries` those as well, else the ids that begin with the
    same word; empty without."""
    import difflib

    spelled = name.lower().replace("_", "-")
    known = tuple(recipes)
    ids = dict.fromkeys(id_ for recipe in known for id_ in (recipe.id, *recipe.aliases))
    if libraries and (close := difflib.get_close_matches(spelled, {one.library for one in known}, n=2, cutoff=0.7)):
        return f"Did you mean {' or '.join(close)}? "
    close = difflib.get_close_matches(spelled, ids, n=3, cutoff=0.7)
    if not close and "-" in spelled:
        first = spelled.partition("-")[0]
        alike = [id_ for id_ in ids if id_.partition("-")[0] == first]
        close = difflib.get_close_matches(spelled, alike, n=3, cutoff=0)
    return f"Did you mean {' or '.join(close)}? " if close else ""


def source(recipe: Recipe) -> str:
    """The file's text, of a family its own table.

    Raises BrokenRecipe when it cannot be read any more.
    """
    text = recipe.file.read_text()
    if recipe.family is None:
        return text
    own = (part for part in re.split(r"^(?=\[\[family\]\])", text, flags=re.MULTILINE) if part.startswith("[["))
    return next(part for part in own if toml.parse(part)["family"][0]["id"] == recipe.id).rstrip() + "\n"


def check_bundled() -> None:
    """Validates the bundled recipes, which `bundled` does not.

    Raises BrokenRecipe for the first faulty file, and for two entries of one id.
    """
    folder = bundled_folder()
    _check_ids((*_read_folder(folder, named=True), *_read_families(folder, named=True)))


def _check_ids(recipes: Iterable[Recipe]) -> None:
    """Raises BrokenRecipe where two entries of one folder have the same id: only one of them would be read."""
    places: dict[str, Recipe] = {}
    for recipe in recipes:
        other = places.setdefault(recipe.id, recipe)
        if other is not recipe:
            kinds = " and ".join("a recipe" if one.family is None else "a family" for one in (other, recipe))
            raise BrokenRecipe(
                f"two entries have the id {recipe.id!r}, {kinds}: {other.file} and {recipe.file}",
                about=f"id: {recipe.id}",
                hint="Rename one of them, or join them.",
            )
