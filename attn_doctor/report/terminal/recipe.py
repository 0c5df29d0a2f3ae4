"""One recipe or family for a person: the problem, why it happens, and how to fix it or where to look."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from rich.text import Text

from attn_doctor.diagnose.log.causes import from_words_alone
from attn_doctor.model import recipe_pages
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.build import TEMPLATE
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.report.language import say, speaks_chinese
from attn_doctor.report.terminal.console import ReportConsole
from attn_doctor.report.terminal.report import Writer


def write(recipe: Recipe, stream: IO[str]) -> None:
    """Writes the whole recipe, independent of a node."""
    console = ReportConsole(stream)
    # What a node would say there is not known.
    finding = replace(from_words_alone(recipe), what=TEMPLATE.sub("…", recipe.what))
    if speaks_chinese():
        from attn_doctor.report.language import translated

        finding = translated.finding(finding, recipe)
    severity = say(recipe.severity.value)
    if recipe.severity_when_reached and recipe.severity_when_reached is not recipe.severity:
        severity += say(", {value} when something ran into it", value=say(recipe.severity_when_reached.value))
    kind = say("a family of messages") if recipe.family else f"{severity}, {recipe.status}"
    kind += say("; a silent error, {silent}", silent=recipe.silent) if recipe.silent else ""
    head = say(
        "{id}  {library}; {kind}; checked {checked}",
        id=recipe.id,
        library=recipe.library,
        kind=kind,
        checked=recipe.checked,
    )
    console.print(Text(head, style="bold"))
    out = Writer(console, verbose=True)
    out.written(finding, what=finding.what if recipe.family is None else "")
    if page := recipe_pages.address(recipe) or _in_checkout(recipe):
        out.page(page)


def _in_checkout(recipe: Recipe) -> str:
    """The page among the docs of a checkout; empty in a wheel, which has none, and for a recipe of another folder."""
    folder, name = (3, recipe.library) if recipe.family is None else (2, "families")
    file = Path(*recipe.file.parts[: -folder - 1]) / "docs" / "recipes" / f"{name}.md"
    return f"{file}#{recipe.id}" if recipe_pages.has_page(recipe) and file.is_file() else ""
