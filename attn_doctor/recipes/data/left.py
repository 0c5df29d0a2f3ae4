"""What is left where no remedy of a recipe is possible on the machine of a log: the table recipes/left.toml."""

from __future__ import annotations

from functools import cache

from attn_doctor.recipes import shelf
from attn_doctor.recipes.build import remedy
from attn_doctor.recipes.recipe import RecipeRemedy

TABLE = "left.toml"


def left_for(package: str) -> tuple[RecipeRemedy, ...]:
    """The remedies of the table for findings about this package, each only where its conditions hold."""
    return tuple(one for of, one in rows() if of == package)


@cache
def rows() -> tuple[tuple[str, RecipeRemedy], ...]:
    """Every row: the package, and the remedy."""
    return tuple((row["of"], remedy(row | {"only_with_facts": True})) for row in shelf.table(TABLE)["left"])
