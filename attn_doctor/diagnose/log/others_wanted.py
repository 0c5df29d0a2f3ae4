"""Adds to a remedy for one package those that the message misses beside it: a list of them is dealt with as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from attn_doctor.diagnose.log.subjects import every_named
from attn_doctor.diagnose.log.unit import Unit
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.findings import Safety
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.model.remedies import Action, Advise
from attn_doctor.probe.packages.known_packages import BY_NAME, distribution_of
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.build import TEMPLATE
from attn_doctor.recipes.data.modules import distribution_with
from attn_doctor.recipes.recipe import Recipe, RecipeRemedy

_NAMES = (
    r"(?P<names>[`'\"]?[A-Za-z][\w.-]{1,60}[`'\"]?(?:(?:, ?(?:and )?| and )[`'\"]?[A-Za-z][\w.-]{0,60}\w[`'\"]?){1,12})"
)
_LISTED = when_used(
    rf"packages that were not found in your environment: {_NAMES}"
    rf"|\b(?:packages?|modules?|librar(?:y|ies)|dependenc(?:y|ies))(?:\(s\))? (?:are |were |is )?"
    rf"(?:not found|missing|not installed)[^\n:]{{0,30}}: ?{_NAMES.replace('<names>', '<absent>')}"
    rf"|\b[Mm]issing (?:packages?|modules?|dependenc(?:y|ies)|requirements?)(?:\(s\))?: ?"
    rf"{_NAMES.replace('<names>', '<missing>')}"
)
_WORD = when_used(r"[A-Za-z][\w.-]{0,60}\w")
_NONE = frozenset({"torch", "and"})
#: Files of a model itself, whose import lacks its point.
_OF_THE_MODEL = when_used(
    r"(?:configuration|modeling|tokenization|processing|image_processing|generation|feature_extraction)_"
)
_NAMED_OTHERWISE = {"cv2": "opencv-python-headless", "PIL": "pillow"}
_ALSO = "The message names {names} too: install all that it names, into the Python that runs."
_COMPILED = "The message names {names} too, with compiled kernels: install what is made for this torch."
#: A plain command brings another torch, the build for another one, or another package of that name.
_OF_TORCH = frozenset({"xformers", "triton", "torchvision", "torchaudio", "vllm", "apex"})


def with_those_beside_it(recipe: Recipe, facts: FactSet, unit: Unit) -> Recipe:
    """The recipe; in each remedy that changes something first what installs the others of a message's list."""
    listed = tuple(_listed(unit.message)) if unit.exception else ()
    if len(listed) < 2:
        return recipe
    title = _filled(recipe.title, facts)
    others = [one for one in listed if not _names(title, one)]
    return replace(recipe, remedies=tuple(_with(one, others, facts) for one in recipe.remedies))


def _listed(message: str) -> Iterator[str]:
    """The distributions, each once, in the order of the message."""
    found = _LISTED.search(message)
    for word in dict.fromkeys(_WORD.findall(next(filter(None, found.groups())))) if found else ():
        if word not in _NONE and not _OF_THE_MODEL.match(word):
            known = distribution_with(word)
            name = _NAMED_OTHERWISE.get(word) or distribution_of(word.replace("-", "_"))
            yield known.requirement if known else canonical_name(name)


def _with(written: RecipeRemedy, others: list[str], facts: FactSet) -> RecipeRemedy:
    if written.safety is Safety.DISPLAY_ONLY:
        return written
    asked = [written.title]
    for action in written.actions:
        asked += [*getattr(action, "commands", ()), *getattr(action, "requirements", ())]
        asked += [str(getattr(action, "package", ""))]
    text = _filled("\n".join(asked), facts)
    beside = [one for one in others if not _names(text, one)]
    return replace(written, actions=(*_installing(beside), *written.actions)) if beside else written


def _installing(names: list[str]) -> Iterator[Action]:
    compiled = [one for one in names if one in _OF_TORCH or (one in BY_NAME and BY_NAME[one].extensions)]
    if plain := tuple(one for one in names if one not in compiled):
        yield Advise(text=_ALSO.format(names=_in_words(plain)), requirements=plain)
    if compiled:
        typed = " ".join(one for one in compiled if one not in _OF_TORCH)
        command = f"{{python.executable}} -m pip install --no-deps --no-build-isolation {typed}"
        yield Advise(text=_COMPILED.format(names=_in_words(compiled)), commands=(command,) if typed else ())


def _in_words(names: list[str] | tuple[str, ...]) -> str:
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def _names(text: str, name: str) -> bool:
    return name in every_named(text) or name in {canonical_name(one) for one in _WORD.findall(text)}


def _filled(text: str, facts: FactSet) -> str:
    return TEMPLATE.sub(lambda found: facts.text(FactName.parse(found[1])) or "", text)
