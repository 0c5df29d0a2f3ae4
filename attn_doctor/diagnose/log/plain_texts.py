"""Texts of a recipe as a log fills them: facts that it lacks leave no gap in a sentence."""

from __future__ import annotations

import re

from attn_doctor.diagnose.binding import Binding
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.findings import Remedy
from attn_doctor.model.remedies import with_advice
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.build import TEMPLATE
from attn_doctor.recipes.recipe import Recipe


def title_of(recipe: Recipe, facts: FactSet, binding: Binding, filled: str) -> str:
    """The title, or the recipe's title for logs when the log lacks facts of the title."""
    names = [FactName.parse(text) for text in TEMPLATE.findall(recipe.title)]
    bound = binding.bound
    missing = [
        name
        for name in names
        if facts.value(name.of(bound[name.kind]) if name.each and name.kind in bound else name) is None
    ]
    if missing and recipe.title_in_log:
        return recipe.title_in_log
    if any(name.attribute not in ("version", "compute_capability", "cuda", "package") for name in missing):
        return recipe.id.replace("-", " ")
    plain = told_plainly(filled)
    return plain[:1].upper() + plain[1:] if missing and plain.startswith(("the ", "this ")) else plain


def plainly(remedy: Remedy) -> Remedy:
    """The remedy with such texts."""
    return replace(
        remedy,
        title=told_plainly(remedy.title),
        why_this_safety=told_plainly(remedy.why_this_safety),
        actions=tuple(replace(one, action=with_advice(one.action, told_plainly)) for one in remedy.actions),
    )


_PLAIN = (
    (r"\s*torch was built for CUDA \?\.", ""),
    (r"(?<=this torch and )CUDA \?", "its CUDA"),
    (r"\bfor CUDA \?", "for torch's CUDA"),
    (r"(?<!another )\b(?:this )?torch \?", "this torch"),
    (r"compute capability \?", "this compute capability"),
    (r" ?\((?:[^()]{0,80}[ _])?\?\)", ""),
    (r"(?: than)? \?(?=[ ,.;:)]|$)", ""),
)


def told_plainly(text: str) -> str:
    """A recipe's text without placeholders of unknown facts, which read ` ?`."""
    for pattern, words in _PLAIN:
        text = re.sub(pattern, words, text)
    return text.strip()
