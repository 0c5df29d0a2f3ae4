"""Finds recipes by their names, and tests them: their format, the cases that they carry, and their age."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from attn_doctor.diagnose.cases import CaseResult, run_cases
from attn_doctor.errors import BadInput
from attn_doctor.model.exit_status import Status
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.recipes import shelf
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.recipes.stale import stale


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipesRequest:
    """Which recipes."""

    ids: tuple[str, ...] = ()
    """Ids or aliases; none: all."""
    folders: tuple[Path, ...] = ()
    """Folders of recipes beside the bundled ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeTests:
    """How recipes stand."""

    recipes: tuple[Recipe, ...]
    cases: int
    """How many were run."""
    faults: tuple[CaseResult, ...]
    """Cases that failed."""
    stale: tuple[tuple[str, str], ...]
    """(recipe, what wants another look)."""

    @property
    def exit_status(self) -> int:
        """A case that failed gates; what is stale does not."""
        return int(Status.FOUND if self.faults else Status.HEALTHY)


def recipes(request: RecipesRequest) -> tuple[Recipe, ...]:
    """Raises BadInput for a name that no recipe has, and for a folder that cannot be read."""
    every = shelf.shelf(request.folders)
    return tuple(_named(id_, every) for id_ in request.ids) if request.ids else tuple(every)


def examine_recipes(request: RecipesRequest) -> RecipeTests:
    """Holds each against the format and runs its cases.

    Raises BadInput as `recipes` does, BrokenRecipe for one that does not follow the format.
    """
    shelf.check_bundled()
    chosen = recipes(request)
    results = [result for one in chosen for result in run_cases(one)]
    return RecipeTests(
        recipes=chosen,
        cases=len(results),
        faults=tuple(result for result in results if result.fault),
        stale=tuple((one.id, reason) for one in chosen for reason in stale(one, date.today())),
    )


def _named(id_: str, every: tuple[Recipe, ...]) -> Recipe:
    # An alias may be another recipe's id: finer causes list their parent.
    for known in (lambda recipe: recipe.id == id_, lambda recipe: id_ in recipe.aliases):
        for recipe in every:
            if known(recipe):
                return recipe
    raise BadInput(f"there is no recipe {id_!r}", about="", hint="`attn-doctor recipes list` prints them all.")
