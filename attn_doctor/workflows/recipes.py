"""Finds recipes by name, and tests them: their format, their cases, and their age."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from attn_doctor.diagnose.cases import CaseResult, run_cases
from attn_doctor.errors import BadInput
from attn_doctor.model.exit_status import Status
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes import shelf, translation
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.recipes.stale import stale


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipesRequest:
    """The recipes to use."""

    ids: tuple[str, ...] = ()
    """Ids or aliases; empty: all."""
    folders: tuple[Path, ...] = ()
    """Folders of recipes in addition to the bundled ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeTests:
    """The results of the tests."""

    recipes: tuple[Recipe, ...]
    cases: int
    """Number of cases run."""
    faults: tuple[CaseResult, ...]
    """Cases that failed."""
    stale: tuple[tuple[str, str], ...]
    """(recipe, reason for a review)."""

    @property
    def exit_status(self) -> int:
        """1 when a case failed; recipes to review do not count."""
        return int(Status.FOUND if self.faults else Status.HEALTHY)


def recipes(request: RecipesRequest) -> tuple[Recipe, ...]:
    """The recipes. Raises BadInput for an unknown name, and for a folder that cannot be read."""
    every = shelf.shelf(request.folders)
    return tuple(_named(id_, every) for id_ in request.ids) if request.ids else tuple(every)


def examine_recipes(request: RecipesRequest) -> RecipeTests:
    """Validates each recipe and runs its cases.

    Raises BadInput as `recipes` does, BrokenRecipe for an invalid recipe.
    """
    shelf.check_bundled()
    chosen = recipes(request)
    results = [result for one in chosen for result in run_cases(one)]
    return RecipeTests(
        recipes=chosen,
        cases=len(results),
        faults=tuple(result for result in results if result.fault),
        stale=tuple(
            (one.id, reason)
            for one in chosen
            for reason in (*stale(one, date.today()), *(f"Chinese: {fault}" for fault in translation.faults(one)))
        ),
    )


def _named(id_: str, every: tuple[Recipe, ...]) -> Recipe:
    # An alias may be another recipe's id: specific causes list their general one.
    for known in (lambda recipe: recipe.id == id_, lambda recipe: id_ in recipe.aliases):
        for recipe in every:
            if known(recipe):
                return recipe
    hint = f"{shelf.meant(id_, every)}`attn-doctor recipes list` prints them all."
    raise BadInput(f"there is no recipe {id_!r}", about="", hint=hint)
