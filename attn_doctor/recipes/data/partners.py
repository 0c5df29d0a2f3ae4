"""Which releases of packages go together: the table recipes/partners.toml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from packaging.version import InvalidVersion, Version

from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes.build import remedy
from attn_doctor.recipes.recipe import RecipeRemedy
from attn_doctor.recipes.shelf import table

TABLE = "partners.toml"


@dataclass(frozen=True, slots=True)
class Partner:
    """A package of the table."""

    name: str
    releases: tuple[str, ...]
    """The newest of each minor release, oldest first."""
    rows: tuple[tuple[Version, Mapping[str, str]], ...]
    cap: str = ""
    """What is asked for where that is enough: partners refuse the major release behind it."""

    def needs(self, release: str) -> Mapping[str, str]:
        """What this release asks for, by package, `python` among them; nothing where the table does not tell."""
        try:
            there = Version(Version(release).base_version)
        except InvalidVersion:
            return {}
        return next((needs for since, needs in reversed(self.rows) if there >= since), {})


@cache
def partners() -> Mapping[str, Partner]:
    """Every package of the table, by its name."""
    return {
        row["name"]: Partner(
            row["name"],
            tuple(row["releases"]),
            tuple(
                (Version(one["from"]), {on: asked for on, asked in one.items() if on != "from"})
                for one in row.get("needs", ())
            ),
            row.get("cap", ""),
        )
        for row in _table()["package"]
    }


@cache
def needs_of_program(name: str, torch: str | None) -> Mapping[str, str]:
    """What a program of the time of that torch asks for."""
    row = next((one for one in _table()["program"] if one["name"] == name), None)
    if row is None or torch is None:
        return {}
    try:
        return dict(row["needs"]) if Version(torch) >= Version(row["torch"]) else {}
    except InvalidVersion:
        return {}


@cache
def torches_of_a_time() -> Mapping[str, tuple[tuple[str, ...], str]]:
    """Fact that tells how old an environment is -> the oldest and the newest torch of that time, and the compute
    capability from which on a GPU runs with none of them.
    """
    return {row["fact"]: (tuple(row["torch"]), row["gpus_below"]) for row in _table()["time"]}


@cache
def models_since() -> Mapping[str, str]:
    """Folder of transformers' models -> the minor release that brought it."""
    models: dict[str, str] = _table()["models"]
    return {name: since for since, names in models.items() for name in names.split()}


@cache
def partner_ways() -> dict[str, RecipeRemedy]:
    """By its id what stands in the place of a remedy that a partner forbids."""
    return {row["id"]: remedy(row) for row in _table()["way"]}


@cache
def _table() -> dict[str, Any]:
    return table(TABLE)
