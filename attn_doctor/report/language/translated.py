"""Results with the texts of recipes in Chinese, before they are written for a person.

A finding carries its texts filled in, often from a file that another node wrote. So the English of its recipe is held
against them: what stands where the English has a placeholder goes to the same place of the Chinese. A text that fits no
English of the recipe, as of another release of attn-doctor, stays as it is.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TypeVar

from attn_doctor.diagnose.log.plain_texts import told_plainly
from attn_doctor.diagnose.log.there_already import NAMES_IT, SAYS_IT, hedged
from attn_doctor.model.findings import Diagnosis, Finding, Remedy
from attn_doctor.model.remedies import Action, Advise, InstallPackages, with_advice
from attn_doctor.model.report import Report
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes import shelf, translation
from attn_doctor.recipes.build import TEMPLATE
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.report.language import catalogue

#: More placeholders of one text are not told apart by which of them are known.
_MOST_UNKNOWN = 4
_FAMILY = when_used(r"(?P<own>.*) It is of this family: (?P<title>.+?)\. (?P<why>.*)", re.DOTALL)
#: What a Chinese sentence says for something that is not known: nothing for a remark in brackets, "this" for others.
_HOLES = (
    (when_used(r"（[^（）]*\?[^（）]*）"), ""),
    (when_used(r"(?<!该)(计算能力|torch|CUDA|Python|glibc) \?"), r"该 \1"),
    (when_used(r" ?(?<![\w/=?])\?(?![\w=])(?= )|(?<![\w/=?])\?(?![\w=]) ?(?=[，。；：、）]|$)"), ""),
    (when_used(r"(?<![\w/=?])\?(?![\w=])"), ""),
    (when_used(r"该 (?=[\u4e00-\u9fff])"), "该"),
    (when_used(r" +(?=[，。；：、）]|$)|(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])"), ""),
)
#: Values of facts that are words and no names (diagnose/placeholders.py).
_SPOKEN_VALUES = ("the package", "yes", "no")
T = TypeVar("T")


def result(value: T) -> T:
    """The result with the texts of its findings in Chinese; one without findings as it is."""
    if isinstance(value, Report):
        near = tuple(replace(one, title=_title_of(one.id, one.title)) for one in value.nearest)
        return replace(value, diagnosis=_diagnosis(value.diagnosis), nearest=near)
    return value


def _diagnosis(one: Diagnosis) -> Diagnosis:
    return replace(one, findings=tuple(map(finding, one.findings)))


def finding(one: Finding, recipe: Recipe | None = None) -> Finding:
    """The finding with the texts of its recipe in Chinese; without the recipe, of the bundled one of its id."""
    recipe = recipe or _recipes().get(one.id)
    if recipe is None:
        return one
    pairs = (*translation.pairs(recipe), *_hedged(recipe), *_checks(one.remedies, recipe))

    def chinese(text: str) -> str:
        return in_chinese(text, pairs)

    return replace(
        one,
        title=_title(one.title, recipe, pairs),
        what=chinese(one.what),
        why=_why(one.why, pairs),
        known_problems=chinese(one.known_problems),
        remedies=tuple(_remedy(remedy, pairs) for remedy in one.remedies),
        symptoms=tuple(map(finding, one.symptoms)),
    )


def _title_of(id_: str, title: str) -> str:
    """The title of the recipe of that id, with an ellipsis for what a finding would fill in."""
    recipe = _recipes().get(id_)
    return title if recipe is None else TEMPLATE.sub("…", text_of(id_, recipe.title))


def text_of(id_: str, text: str) -> str:
    """A text of the recipe of that id, of its remedies too."""
    recipe = _recipes().get(id_)
    return text if recipe is None else _title(text, recipe, tuple(translation.pairs(recipe)))


def in_chinese(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    """The text in Chinese, when it is one of the English ones with its placeholders filled; else as it is."""
    plain = " ".join(text.split())
    for english, chinese in pairs if plain else ():
        for pattern, unknown in _patterns(english):
            match = pattern.fullmatch(plain)
            if match is not None:
                return _filled(chinese, {**match.groupdict(), **dict.fromkeys(unknown, "?")}, english)
    return text


def _title(text: str, recipe: Recipe, pairs: Iterable[tuple[str, str]]) -> str:
    found = in_chinese(text, pairs)
    if found == text == recipe.id.replace("-", " "):  # a log lacks what the title is about
        chinese = dict(pairs).get(recipe.title, text)
        return _filled(chinese, dict.fromkeys(map(_group, TEMPLATE.findall(chinese)), "?"), recipe.title)
    return found


def _why(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    match = _FAMILY.fullmatch(text)
    if match is None:
        return in_chinese(text, pairs)
    family = next((one for one in _recipes().values() if one.family and one.title == match["title"]), None)
    of_family = tuple(translation.pairs(family)) if family is not None else ()
    return catalogue.texts()["{own} It is of this family: {title}. {why}"].format(
        own=in_chinese(match["own"], pairs),
        title=in_chinese(match["title"], of_family),
        why=in_chinese(match["why"], of_family),
    )


def _remedy(one: Remedy, pairs: Iterable[tuple[str, str]]) -> Remedy:
    known = (*pairs, *catalogue.patterns())

    def chinese(text: str) -> str:
        return in_chinese(text, known)

    def action(each: Action) -> Action:
        if isinstance(each, InstallPackages | Advise) and each.hint:
            each = replace(each, index_hint=chinese(each.index_hint))
        return with_advice(each, chinese)

    return replace(
        one,
        title=chinese(one.title),
        why_this_safety=chinese(one.why_this_safety),
        actions=tuple(replace(each, action=action(each.action)) for each in one.actions),
    )


def _hedged(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """The titles of a recipe where the log says that what it calls not installed is there."""
    title = dict(translation.pairs(recipe)).get(recipe.title)
    for says in (NAMES_IT, SAYS_IT) if title else ():
        slots = says.replace("{", "{any.")
        if hedged(recipe.title, slots) != recipe.title:
            yield hedged(recipe.title, slots), f"{title}（{catalogue.texts()[says].replace('{', '{any.')}）"


def _checks(remedies: Iterable[Remedy], recipe: Recipe) -> Iterator[tuple[str, str]]:
    """The checks of a family that were added to the finding of a recipe."""
    if recipe.family is None and any(one.id.startswith("check-") for one in remedies):
        for one in _recipes().values():
            if one.family is not None:
                yield from translation.pairs(one)


@cache
def _recipes() -> dict[str, Recipe]:
    return {one.id: one for one in (*shelf.bundled(), *shelf.families())}


@cache
def _patterns(english: str) -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    """What the English may read once filled, and which of its placeholders were not known then."""
    names = tuple(dict.fromkeys(TEMPLATE.findall(english)))
    some = (set(left) for count in range(len(names) + 1) for left in itertools.combinations(names, count))
    found = []
    for unknown in some if len(names) <= _MOST_UNKNOWN else iter([set(), set(names)]):
        marks = {name: "?" if name in unknown else f"\ue000{number}\ue001" for number, name in enumerate(names)}
        filled = TEMPLATE.sub(lambda match, marks=marks: marks[match[1]], english)  # type: ignore[misc]
        for words in dict.fromkeys((filled, told_plainly(filled))):
            pattern = re.escape(" ".join(words.split()))
            for number, name in enumerate(names):
                mark, group = f"\ue000{number}\ue001", _group(name)
                pattern = pattern.replace(mark, f"(?P<{group}>.+?)", 1).replace(mark, f"(?P={group})")
            found.append((re.compile(pattern, re.DOTALL | re.IGNORECASE), tuple(map(_group, unknown))))
    return tuple(found)


def _group(name: str) -> str:
    return "_" + re.sub(r"\W", "_", name)


def _filled(chinese: str, values: dict[str, str], english: str) -> str:
    def value(match: re.Match[str]) -> str:
        one = values.get(_group(match[1]), "?")
        return catalogue.texts()[one] if one in _SPOKEN_VALUES else one

    text = TEMPLATE.sub(value, chinese)
    if "?" in values.values() and "?" not in english:
        for pattern, words in _HOLES:
            text = pattern.sub(words, text)
    return text
