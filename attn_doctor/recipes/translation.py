"""The Chinese of recipes: `zh.toml` beside a `recipe.toml`, and for families a file of the same name in `families/zh/`.

It has the texts of the recipe under their own names (title, title_in_log, what, why, known_problems), those of a remedy
under `remedy.<id>` (title, text or a list of texts, hint, why_this_safety, why_safe), and a family's checks in their
table (check) by their English. Placeholders `{fact.name}` are those of the English. A text that is left out stays
English. Read only when Chinese is spoken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from attn_doctor.formats import toml
from attn_doctor.recipes.build import TEMPLATE
from attn_doctor.recipes.recipe import Recipe, RecipeRemedy

FILE = "zh.toml"
_OF_A_RECIPE = ("title", "title_in_log", "what", "why", "known_problems")
_OF_A_REMEDY = ("title", "text", "hint", "why_this_safety", "why_safe")
#: Options, versions, dtypes, names of parameters: words of the English with a digit or a sign that no plain word has.
_TECHNICAL = re.compile(r"(?<![\w{.])(?:--?)?[A-Za-z][\w.+-]*(?:[=_/.+]|\d)[\w.=+/-]*[\w]")

#: What is typed or compared: versions, flags, settings, names in capitals, addresses. They stand in both.
_EXACT = re.compile(r"https://\S+[\w/]|(?<!\w)--[a-z-]+|\b[A-Z]+_[A-Z_]+\b|\b\w+_\w+\b|\b\d+(?:\.\d+)+\b")


def file_of(recipe: Recipe) -> Path:
    """The file that has the recipe's Chinese, there or not."""
    folder = recipe.file.parent
    return folder / "zh" / recipe.file.name if recipe.family is not None else folder / FILE


def pairs(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Each text of the recipe that has a Chinese one, and that one; placeholders as they are written."""
    table = _table(recipe)
    for name in _OF_A_RECIPE:
        if table.get(name) and getattr(recipe, name):
            yield getattr(recipe, name), table[name]
    remedies = table.get("remedy", {})
    for remedy in recipe.remedies:
        if recipe.family is not None:
            own = {"title": table.get("check", {}).get(remedy.title, "")}
        else:
            own = remedies.get(remedy.id, {})
        yield from ((english, chinese) for english, chinese in _of_remedy(remedy, own) if english and chinese)


def _of_remedy(remedy: RecipeRemedy, own: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield remedy.title, own.get("title", "")
    yield remedy.why_this_safety, own.get("why_this_safety", "")
    yield remedy.why_safe, own.get("why_safe", "")
    for name, words in (("text", _texts(remedy)), ("hint", [one.hint for one in remedy.actions if one.hint])):
        written = own.get(name, ())
        yield from zip(words, (written,) if isinstance(written, str) else written, strict=False)


def _texts(remedy: RecipeRemedy) -> list[str]:
    return [one.advice for one in remedy.actions if one.advice]


def lacking(recipe: Recipe) -> Iterator[str]:
    """The texts that have to have a Chinese one and have none: title, cause, and the first remedy."""
    there = {english for english, _ in pairs(recipe)}
    first = recipe.remedies[0] if recipe.remedies else None
    wanted = {name: getattr(recipe, name) for name in ("title", "title_in_log", "what", "why")}
    if first is not None:
        wanted[f"remedy.{first.id}.title"] = first.title
        wanted.update(
            {f"remedy.{first.id}.text {number}": words for number, words in enumerate(_texts(first), start=1)}
        )
    yield from (name for name, english in wanted.items() if english and english not in there)


def faults(recipe: Recipe) -> Iterator[str]:
    """What is wrong with its Chinese: keys that name nothing, other placeholders, technical words of its own."""
    table = _table(recipe)
    own = {"check"} if recipe.family is not None else {"remedy"}
    yield from (f"{key} is no text of a recipe" for key in table if key not in (*_OF_A_RECIPE, *own))
    ids = {one.id for one in recipe.remedies}
    for id_, texts in table.get("remedy", {}).items():
        if id_ not in ids:
            yield f"remedy.{id_}: the recipe has no such remedy"
        yield from (f"remedy.{id_}.{key} is no text of a remedy" for key in texts if key not in _OF_A_REMEDY)
    titles = {one.title for one in recipe.remedies}
    yield from (f"the family has no such check: {one}" for one in table.get("check", {}) if one not in titles)
    for english, chinese in pairs(recipe):
        if sorted(TEMPLATE.findall(english)) != sorted(TEMPLATE.findall(chinese)):
            yield f"other placeholders than the English: {chinese}"
        here, there = TEMPLATE.sub("", english), TEMPLATE.sub("", chinese)
        strange = [word for word in _TECHNICAL.findall(there) if word.lower() not in here.lower()]
        yield from (f"not in the English: {word}: {chinese}" for word in strange)
        lost = [word for word in _EXACT.findall(here) if word not in there]
        yield from (f"lost from the English: {word}: {chinese}" for word in lost)
        if re.search(r"[a-z]", here) and not re.search(r"[\u4e00-\u9fff，。；：（）]", there):
            yield f"not Chinese: {chinese}"


def _table(recipe: Recipe) -> dict[str, Any]:
    file = file_of(recipe)
    table = _parsed(file)
    own: dict[str, Any] = table.get(recipe.id, {}) if recipe.family is not None else table
    return own


@cache
def _parsed(file: Path) -> dict[str, Any]:
    try:
        return toml.parse(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
