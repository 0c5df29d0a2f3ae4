"""Which recipes want another look: a remedy past its day, or nobody held the recipe against its sources for a year."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from attn_doctor.recipes.recipe import Recipe

#: Wheels, releases and indexes move; what was true longer ago than this may send people the wrong way.
_FRESH = timedelta(days=365)


def stale(recipe: Recipe, today: date) -> Iterator[str]:
    """What to look at again, one line each."""
    checked = date.fromisoformat(recipe.checked)
    if today - checked > _FRESH:
        yield f"last held against its sources on {checked}, more than {_FRESH.days} days ago"
    for remedy in recipe.remedies:
        if remedy.expires and date.fromisoformat(remedy.expires) < today:
            yield f"remedy {remedy.id} expired on {remedy.expires}"
