"""`attn-doctor recipes list | show | test | new | facts`: the recipes and the facts they use."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli.guard import guarded
from attn_doctor.cli.shared import each, put
from attn_doctor.model.exit_status import Status
from attn_doctor.model.vocabulary import TERMS
from attn_doctor.recipes import shelf
from attn_doctor.recipes.kept import bundled_folder
from attn_doctor.recipes.schema import skeleton
from attn_doctor.report import picker
from attn_doctor.report.renderer import RECIPES
from attn_doctor.version import __version__
from attn_doctor.workflows.recipes import RecipesRequest, examine_recipes
from attn_doctor.workflows.recipes import recipes as find

app = typer.Typer(help="What the doctor knows.", no_args_is_help=True, rich_markup_mode=None)

Folders = Annotated[
    list[Path] | None, typer.Option("--recipes", metavar="DIR", help="Another folder of recipes to read as well.")
]


AsJson = Annotated[bool, typer.Option("--json", help="As JSON (attn-doctor/recipes/v1).")]


@app.command("list")
@guarded
def list_(folders: Folders = None, json_: AsJson = False) -> int:
    """Print every recipe: id, library, severity, title; with --json also why, facts, references, remedies."""
    recipes = find(RecipesRequest(folders=each(folders)))
    if json_:
        put(recipes, picker.pick(RECIPES, as_json=True))
        return Status.HEALTHY
    wide = max((len(recipe.id) for recipe in recipes), default=0)
    broad = max((len(recipe.library) for recipe in recipes), default=0)
    for recipe in recipes:
        mark = " (family)" if recipe.family else " (preview)" if recipe.status == "preview" else ""
        _print(f"{recipe.id:{wide}}  {recipe.library:{broad}}  {recipe.severity.value:7}  {recipe.title}{mark}")
    return Status.HEALTHY


@app.command("show")
@guarded
def show(
    id_: Annotated[str, typer.Argument(metavar="ID", help="A recipe's id or alias.")],
    folders: Folders = None,
    json_: AsJson = False,
) -> int:
    """Print one recipe as it is written; with --json as `recipes list --json` has it."""
    (recipe,) = find(RecipesRequest(ids=(id_,), folders=each(folders)))
    if json_:
        put((recipe,), picker.pick(RECIPES, as_json=True))
        return Status.HEALTHY
    _print(f"# {recipe.origin}, sha256 {recipe.sha256}")
    if recipe.file.is_relative_to(bundled_folder()):
        _print(f"# in words: docs/recipes/{recipe.library}.md")
    sys.stdout.write(shelf.source(recipe))
    return Status.HEALTHY


@app.command("test")
@guarded
def test(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Recipes to test; all without.")] = None,
    folders: Folders = None,
) -> int:
    """Check every recipe against the format, run the cases that it carries, and tell what wants another look.

    Exit status: 0 all cases passed, 1 some failed, 2 a recipe does not follow the format. What is stale fails nothing.
    """
    tested = examine_recipes(RecipesRequest(ids=each(ids), folders=each(folders)))
    for recipe, reason in tested.stale:
        _print(f"{recipe}: stale: {reason}")
    for case in tested.faults:
        _print(f"{case.recipe}: case {case.number}: {case.fault}")
    old = f", {len(tested.stale)} stale" if tested.stale else ""
    _print(f"{len(tested.recipes)} recipes, {tested.cases} cases, {len(tested.faults)} failed{old}")
    return tested.exit_status


@app.command("new")
@guarded
def new(
    id_: Annotated[str, typer.Argument(metavar="ID", help="The trouble in words: triton-cache-on-slow-disk.")],
    folder: Annotated[Path, typer.Option(metavar="DIR", help="Folder of recipes to write to.")] = Path("recipes"),
    library: Annotated[str, typer.Option(metavar="NAME", help="What it is a trouble of.")] = "site",
) -> int:
    """Write a recipe to be filled in, to DIR/LIBRARY/ID/recipe.toml.

    `attn-doctor recipes test ID --recipes DIR` then says what is still to be filled in; `--recipes DIR` makes check,
    explain and fix use it.
    """
    file = skeleton.write(id_, folder, library, since=__version__.partition("+")[0])
    _print(f"wrote {file}")
    for recipe in shelf.bundled():
        if recipe.id == id_:
            _print(f"it stands in for the recipe {id_} that attn-doctor brings, wherever the folder is named")
    _print(f"next: fill it in, then attn-doctor recipes test {id_} --recipes {shlex.quote(str(folder))}")
    return Status.HEALTHY


@app.command("facts")
@guarded
def facts() -> int:
    """Print every fact that a recipe or --assume can name."""
    wide = max(len(term.name) for term in TERMS)
    for term in TERMS:
        unit = f" [{term.unit}]" if term.unit else ""
        _print(f"{term.name:{wide}}  {term.kind.value:18}  {term.meaning}{unit}")
    return Status.HEALTHY


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
