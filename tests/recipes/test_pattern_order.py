"""The first pattern of a family or recipe that is found counts: a general one must not stand before an exact one."""

from __future__ import annotations

import re

from attn_doctor.recipes import shelf
from attn_doctor.recipes.recipe import LogPattern, Recipe


def _taken(pattern: LogPattern, text: str) -> re.Match[str] | None:
    found = re.search(pattern.pattern, text, re.MULTILINE)
    if found is None or (pattern.unless and re.search(pattern.unless, text, re.MULTILINE)):
        return None
    if pattern.nearby and not re.search(pattern.nearby, text, re.MULTILINE):
        return None
    return None if pattern.unless_nearby and re.search(pattern.unless_nearby, text, re.MULTILINE) else found


def _hidden(recipe: Recipe) -> list[str]:
    """The exact patterns that a general one before them hides, each with the log that both find."""
    told = []
    for case in recipe.cases:
        if case.log is None or case.expect != "finds":
            continue
        hits = [(one, found) for one in recipe.logs if (found := _taken(one, case.log))]
        if not hits or hits[0][0].nearby or hits[0][0].of_learning or any(hits[0][1].groupdict().values()):
            continue
        hidden = [one for one, found in hits[1:] if one.nearby and any(found.groupdict().values())]
        told += [f"{one.pattern} is never reached in {case.log!r}" for one in hidden[:1]]
    return told


def test_no_exact_pattern_is_hidden() -> None:
    """A pattern that asks for what stands nearby and takes a fact out of it comes before one that does neither."""
    hidden = {one.id: _hidden(one) for one in (*shelf.bundled(), *shelf.families())}

    assert {id_: told for id_, told in hidden.items() if told} == {}
