"""Finds recipes to review: a remedy past its expiry date, or sources last checked more than a year ago."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

from attn_doctor.recipes.recipe import Recipe

#: Wheels, releases and indexes change; older statements may mislead.
_FRESH = timedelta(days=365)


def stale(recipe: Recipe, today: date) -> Iterator[str]:
    """Yields the reasons for a review, one line each."""
    checked = date.fromisoformat(recipe.checked)
    if today - checked > _FRESH:
        yield f"last held against its sources on {checked}, more than {_FRESH.days} days ago"
    for remedy in recipe.remedies:
        if remedy.expires and date.fromisoformat(remedy.expires) < today:
            yield f"remedy {remedy.id} expired on {remedy.expires}"
