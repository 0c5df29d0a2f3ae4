"""One recipe or family for a person: the problem, why it happens, and how to fix it or where to look."""

from __future__ import annotations

from typing import IO

from rich.text import Text

from attn_doctor.diagnose.log.causes import from_words_alone
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.report.terminal.console import ReportConsole
from attn_doctor.report.terminal.report import Writer


def write(recipe: Recipe, stream: IO[str]) -> None:
    """Writes the whole recipe, independent of a node."""
    console = ReportConsole(stream)
    finding = from_words_alone(recipe)
    severity = recipe.severity.value
    if recipe.severity_when_reached and recipe.severity_when_reached is not recipe.severity:
        severity += f", {recipe.severity_when_reached.value} when something ran into it"
    kind = "a family of messages" if recipe.family else f"{severity}, {recipe.status}"
    kind += f"; a silent error, {recipe.silent}" if recipe.silent else ""
    console.print(Text(f"{recipe.id}  {recipe.library}; {kind}; checked {recipe.checked}", style="bold"))
    Writer(console, verbose=True).written(finding, what=recipe.what if recipe.family is None else "")
