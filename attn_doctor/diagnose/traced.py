"""Reduces a diagnosis to what a traced run shows; `check` reports problems of the rest of the environment."""

from __future__ import annotations

from collections.abc import Iterable

from attn_doctor.model.facts import FactName
from attn_doctor.model.findings import Diagnosis
from attn_doctor.model.kinds import kind_of
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.recipe import Recipe


def met(diagnosis: Diagnosis, recipes: Iterable[Recipe]) -> Diagnosis:
    """The findings that rest on something observed in the run, and the open questions of the recipes about runs."""
    about_runs = {
        recipe.id
        for recipe in recipes
        if kind_of(recipe.for_each or "").traced or any(name.kind == "trace" for name in recipe.asks())
    }
    return replace(
        diagnosis,
        findings=tuple(found for found in diagnosis.findings if any(_is_traced(fact.name) for fact in found.evidence)),
        open_questions=tuple(one for one in diagnosis.open_questions if one.recipe in about_runs),
        cleared=tuple(name for name in diagnosis.cleared if name in about_runs),
        not_asked=tuple(name for name in diagnosis.not_asked if name in about_runs),
    )


def _is_traced(name: FactName) -> bool:
    """True when only a traced run finds the fact; facts about library code in the run are computed from those."""
    return kind_of(name.kind).traced or name.attribute == "promotes"
