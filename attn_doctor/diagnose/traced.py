"""What of a diagnosis a traced run itself tells: what lies in the environment besides is `check`'s to say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from attn_doctor.model.facts import FactName
from attn_doctor.model.findings import Diagnosis
from attn_doctor.model.kinds import kind_of
from attn_doctor.recipes.recipe import Recipe


def met(diagnosis: Diagnosis, recipes: Iterable[Recipe]) -> Diagnosis:
    """The findings that rest on something the run met, and the questions of the recipes that are about runs."""
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
    """Whether only the traced run tells it; what a library's code did there is computed from that."""
    return kind_of(name.kind).traced or name.attribute == "promotes"
