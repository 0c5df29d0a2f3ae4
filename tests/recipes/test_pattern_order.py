"""The first pattern of a family or recipe that is found counts: a general one must not stand before an exact one."""

from __future__ import annotations

import re

import pytest

from attn_doctor.recipes import shelf
from attn_doctor.recipes.recipe import LogPattern, Recipe


def _taken(pattern: LogPattern, text: str) -> re.Match[str] | None:
    found = re.search(pattern.pattern, text, re.MULTILINE)
    if found is None or (pattern.unless and re.search(pattern.unless, text, re.MULTILINE)):
        return None
    if pattern.nearby and not re.search(pattern.nearby, text, re.MULTILINE):
        return None
    return None if pattern.unless_nearby and re.search(pattern.unless_nearby, text, re.MULTILINE) else found


@pytest.mark.parametrize("recipe", [*shelf.bundled(), *shelf.families()], ids=lambda one: one.id)
def test_no_exact_pattern_is_hidden(recipe: Recipe) -> None:
    """A pattern that asks for what stands nearby and takes a fact out of it comes before one that does neither."""
    for case in recipe.cases:
        if case.log is None or case.expect != "finds":
            continue
        hits = [(one, found) for one in recipe.logs if (found := _taken(one, case.log))]
        if not hits or hits[0][0].nearby or hits[0][0].of_learning or any(hits[0][1].groupdict().values()):
            continue
        hidden = [one for one, found in hits[1:] if one.nearby and any(found.groupdict().values())]
        assert not hidden, f"{hidden[0].pattern} is never reached in {case.log!r}"
