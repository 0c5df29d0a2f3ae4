"""attn-doctor/recipes/v1: the recipes as JSON. Keys may be added later, never renamed or removed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attn_doctor.machine.printable import json_text
from attn_doctor.model import recipe_pages
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.version import __version__

SCHEMA = "attn-doctor/recipes/v1"


def dumps(recipes: Iterable[Recipe]) -> str:
    """The recipes as JSON text, without their conditions and tests, which are in their files."""
    told = {"schema": SCHEMA, "doctor_version": __version__, "recipes": [_recipe(one) for one in recipes]}
    return json_text(told, indent=2) + "\n"


def _recipe(recipe: Recipe) -> dict[str, Any]:
    reached = recipe.severity_when_reached
    return {
        "id": recipe.id,
        "library": recipe.library,
        "title": recipe.title,
        "severity": recipe.severity.value,
        "severity_when_reached": None if reached is None else reached.value,
        "status": recipe.status,
        "since": recipe.since,
        "checked": recipe.checked,
        "aliases": list(recipe.aliases),
        "what": recipe.what,
        "why": recipe.why,
        "known_problems": recipe.known_problems,
        "silent": recipe.silent,
        "facts": [str(name) for name in recipe.asks()],
        "in_logs": bool(recipe.logs),
        "family": None if recipe.family is None else recipe.family.about,
        "references": [{"kind": kind, "url": url} for kind, url in recipe.references],
        "remedies": [
            {
                "id": one.id,
                "title": one.title,
                "safety": one.safety.value,
                "why_this_safety": one.why_this_safety,
                "actions": [action.kind for action in one.actions],
            }
            for one in recipe.remedies
        ],
        "page": recipe_pages.address(recipe),
        "origin": recipe.origin,
        "file": str(recipe.file),
        "sha256": recipe.sha256,
    }
