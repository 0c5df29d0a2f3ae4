"""Says how pip is called in a log's environment, where a remedy tells in words what to install.

Its commands have that form already; a portable program, uv and pipx have a pip of their own, and the plain one changes
another Python.
"""

from __future__ import annotations

from attn_doctor.fix.packages import shell_forms
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.programs import ways
from attn_doctor.recipes.recipe import Recipe, RecipeRemedy

_PIP = FactName.parse("log.pip")
_INSTALLS = when_used(r"\bpip3? (?:install|uninstall)\b")


def with_its_pip(recipe: Recipe, facts: FactSet) -> tuple[Recipe, FactSet]:
    """The recipe, its remedies of words alone with the line on pip; and the fact that this line names."""
    called = shell_forms.pip_there(facts)
    if called is None:
        return recipe, facts
    told = Fact(name=_PIP, state=Known(called), how="python.environment", origin=Origin.DERIVED)
    return replace(recipe, remedies=tuple(map(_with_the_line, recipe.remedies))), facts.with_facts([told])


def _with_the_line(written: RecipeRemedy) -> RecipeRemedy:
    texts = (written.title, *(one.advice for one in written.actions))
    installs = any(getattr(one, "commands", ()) or getattr(one, "requirements", ()) for one in written.actions)
    if installs or not any(map(_INSTALLS.search, texts)):
        return written
    return replace(written, actions=(*written.actions, *ways()["pip-of-the-environment"].actions))
