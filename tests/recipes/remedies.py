"""The remedies of the whole shelf, what they say, and what they install: for laws over all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from attn_doctor.model.install_request import name_of
from attn_doctor.model.remedies import Advise, InstallPackages, InstallWheel
from attn_doctor.recipes import shelf
from attn_doctor.recipes.data.left import rows
from attn_doctor.recipes.recipe import AnyOf, Condition, Question, Recipe, RecipeRemedy

REMEDIES = [(recipe, remedy) for recipe in (*shelf.bundled(), *shelf.families()) for remedy in recipe.remedies]
REMEDIES += [
    (next(recipe for recipe in shelf.bundled() if recipe.library == package), remedy) for package, remedy in rows()
]
#: An address, or the release that is there, which the shell puts in its place.
ASKED_BY_THE_SHELL = re.compile(r'"[^"\s]{0,80}\$\([^$]{1,300}\)[^"\s]{0,40}"')

#: What a remedy needs -> the facts, one of which its conditions have to ask.
DRIVERS = {
    "driver.version",
    "driver.cuda",
    "driver.too_old",
    "torch.gpu_release",
    "torch.gpu_backend",
    "torch.own_backend",
    "torch.lacks_gpu_code",
}
GPUS = {"gpu.compute_capability", "call.compute_capability", "gpu.name", "gpu.bf16_native", "node.bf16_native"}

Law = Callable[[Recipe, RecipeRemedy], object]


def faults(law: Law) -> list[str]:
    """What a law has against each remedy of the shelf: one test over all of them, for they are thousands."""
    told = [(f"{recipe.id}:{remedy.id}", law(recipe, remedy)) for recipe, remedy in REMEDIES]
    return [f"{called}: {fault}" for called, fault in told if fault]


def named(called: str) -> tuple[Recipe, RecipeRemedy]:
    """The remedy `recipe:remedy`."""
    return next((recipe, one) for recipe, one in REMEDIES if f"{recipe.id}:{one.id}" == called)


def asked(conditions: tuple[Condition, ...]) -> Iterator[Question]:
    """Every question of some conditions."""
    for condition in conditions:
        yield from condition.questions if isinstance(condition, AnyOf) else (condition,)


def facts_asked(recipe: Recipe, remedy: RecipeRemedy) -> set[str]:
    """The facts that decide whether it is offered; a recipe's own decide only where no log offers it without them."""
    own = tuple(asked(remedy.when + remedy.unless)) + (tuple(asked(recipe.when)) if not recipe.logs else ())
    names = {str(question.fact) for question in own}
    return names | {re.sub(r"\.\*\.", ".", name) for name in names}


def commands(remedy: RecipeRemedy) -> Iterator[str]:
    """The commands that are spelled out in it."""
    for action in remedy.actions:
        if isinstance(action, Advise):
            yield from action.commands


def texts(remedy: RecipeRemedy) -> Iterator[str]:
    """What it says in words: its title (a family's check has no more), its advice, and why it is not safe."""
    yield remedy.title
    for action in remedy.actions:
        if isinstance(action, Advise) and action.text:
            yield action.text
    if remedy.why_this_safety:
        yield remedy.why_this_safety


def installed(remedy: RecipeRemedy) -> Iterator[tuple[str, bool]]:
    """Each package that it installs by name, and whether what that asks for is left alone."""
    for action in remedy.actions:
        if isinstance(action, InstallWheel):
            yield action.package, True
        if isinstance(action, InstallPackages | Advise):
            for requirement in action.requirements:
                yield name_of(requirement), action.no_deps
    for command in commands(remedy):
        yield from _of_a_line(ASKED_BY_THE_SHELL.sub("", command))


def _of_a_line(command: str) -> Iterator[tuple[str, bool]]:
    found = _INSTALL.search(command)
    if found:
        yield from ((name, "--no-deps" in found["rest"].split()) for name in _names(found["rest"]))


_INSTALLERS = r"\b(?:pip(?:3(?:\.\d{1,2})?)?|uv pip|uv|poetry|pdm|pixi|conda|mamba|micromamba) (?:install|add)"
_INSTALL = re.compile(rf"{_INSTALLERS} (?P<rest>[^|>]*)")
#: A repository, or a wheel by its address or file.
_REPOSITORY = re.compile(r"git\+[^\s#]*/(?P<name>[\w.-]+?)(?:\.git)?/?(?:@[^\s/#]*)?(?:#\S*)?$")
#: A repository that is not called like its package.
_CALLED = {"flash-attention": "flash-attn", "pointnet2-pytorch": "pointnet2-ops", "tiny-cuda-nn": "tinycudann"}
_WHEEL = re.compile(r"(?:^|/)(?P<name>[A-Za-z][\w.]*?)-\d[\w.+%]*-\S+\.whl$")
_TAKES_A_VALUE = ("--index-url", "--extra-index-url", "--find-links", "-f", "-c", "-C", "--no-binary", "--only-binary")


def _names(rest: str) -> Iterator[str]:
    words = [word.strip("'\"`") for word in rest.split()]
    for before, word in zip(["", *words], words, strict=False):
        if "{" not in word and (found := _REPOSITORY.search(word) or _WHEEL.search(word)):
            name = name_of(found["name"])
            yield _CALLED.get(name, name)
        elif (
            re.match(r"[A-Za-z]", word)
            and not word.startswith(("http", "conda-forge"))
            and before not in _TAKES_A_VALUE
        ):
            yield name_of(word)


def typed(remedy: RecipeRemedy) -> Iterator[str]:
    """The installer's command lines within its texts, to where the sentence goes on."""
    for text in texts(remedy):
        for found in _LINE.finditer(text):
            yield found[0]


_LINE = re.compile(
    rf"{_INSTALLERS} "
    r"(?:(?![;()\u3002\uff0c]|[,:.](?:\s|$)| (?:and|or|in|with|for|then|where) ).){2,200}"
)


def installed_by(line: str) -> Iterator[str]:
    """The names that such a line hands to the installer."""
    found = _INSTALL.search(line)
    return _names(found["rest"]) if found else iter(())
