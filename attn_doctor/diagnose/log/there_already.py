"""What a log says is there already: a remedy that asks an installer for that would change nothing, and a package that a
message calls missing either does not load, which the program hides, or is missing in the Python that runs alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attn_doctor.diagnose.conditions import answer_all
from attn_doctor.diagnose.log.said_installed import INSTALLED
from attn_doctor.diagnose.log.subjects import every_named
from attn_doctor.diagnose.log.tried import one_that_meets
from attn_doctor.diagnose.log.unit import Unit
from attn_doctor.model.facts import FactName, FactSet, Known, Origin
from attn_doctor.model.findings import Remedy, Safety, Verdict
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.model.remedies import Advise, ProposedAction
from attn_doctor.probe.packages.known_packages import BY_NAME, distribution_of
from attn_doctor.probe.packages.requirements import met
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.recipe import Recipe, RecipeRemedy

#: The remedy that looks at it.
IN_THE_PYTHON_THAT_RUNS = "in-the-python-that-runs"
#: Recipes' own, which know more of the message.
_ITS_OWN = frozenset(
    {"python-that-runs", "see-why-it-does-not-import", "by-uv-into-this-environment", "variable-at-run-time"}
)

#: Python itself does not find it.
_NOT_FOUND = when_used(r"No module (?:named )?'?(?P<module>[A-Za-z]\w{1,60})'?(?=[\s;.,\"`)]|$)(?!\.\w)")
#: A program's own check says that it is not there: by its import name, its own, or as it is to be installed.
_SAID_MISSING = when_used(
    r"(?:[Pp]ackage|[Ll]ibrary) [`'\"]?(?P<package>[A-Za-z][\w-]{2,60})[`'\"]? (?:seems to be not|is not|was not)"
    r" (?:installed|found|available)"
    r"|\bnot installed\b[^\n]{0,60}\bpip3? install [`'\"]?(?P<typed>[A-Za-z][\w-]{2,60})"
    r"|\b[Pp]lease (?:pip3? )?install (?:the )?[`'\"]?(?:pip3? install )?(?P<asked>[A-Za-z][\w-]{2,60})"
    r"(?! (?:properly|again))\b"
    r"|(?P<off>\bFlash ?Attention ?2) is not available\. Please refer to"
    r"|(?P<absent>\b[A-Za-z][\w -]{2,60}?)[`'\"]? (?:package |library |module )?(?:is|was) not installed\b"
)
#: An installer's words: there is no such release, wherever it is to go.
_OFFERED = when_used(r"No matching distribution|Could not find a version")
_SUBJECT = FactName.parse("subject.package")
_INSTALLED = FactName.parse(INSTALLED)
_CLAIMS_IT = "not installed"
_MAYBE = "not installed for the Python that runs, or does not load"
#: How the log says that it is there.
NAMES_IT, SAYS_IT = "names {package} {version} as installed", "says that {package} is installed"
PUT_IN = "says that {package} {version} was put in"
_HIDDEN = (
    "The log {says}: its import fails and the program hides why, or another Python "
    "runs. Import it alone with the Python that runs"
)
_ELSEWHERE = (
    "The log {says}: the Python that runs it is another one, or was not started anew "
    "since. Compare the two, and install with the one that runs"
)
_HOW = (
    "In the failing program or notebook: import sys; print(sys.executable). With that path, -m pip show {package} says "
    "whether it is there, and -c 'import {module}' whether it loads; what that raises is the cause."
)
_WHICH = (
    "In the failing program or notebook: import sys; print(sys.executable). With that path, -m pip show {package} says "
    "which release is there and where."
)
#: The file in which pip runs a setup.py, and the recipe of a build that sees nothing of what is installed.
_OF_A_BUILDER, _OF_ISOLATION = "<string>", "build-isolation-no-torch"
#: With these an installer moves, or makes anew, what is there.
_MOVES = when_used(
    r"(?<![\w-])(?:-[A-Za-z]*U|--upgrade|--force-reinstall|--reinstall|--no-binary|-[er]|--editable|--torch-backend|--index-url)(?![\w-])"
)
_INSTALLS = when_used(r"\b(?:pip3?|conda|mamba) install (?P<what>[^\n;&|]+)")
#: Keeps the torch that is there, beside what is asked for.
_PIN = when_used(r"[\"']?torch==\$\(")
_WORD = when_used(r"\"[^\"]*\"|'[^']*'|\S+")
#: Their next word is no package.
_WITH_A_VALUE = frozenset(
    {"-c", "-n", "-i", "-f", "--channel", "--index-url", "--extra-index-url", "--find-links", "--name"}
)


def in_the_python_that_runs(recipe: Recipe, facts: FactSet, unit: Unit) -> Recipe:
    """Its first remedy a look at the Python that runs, where the log says that what it misses is installed. A release
    that only the message itself names is one that was asked for.
    """
    if recipe.id == _OF_ISOLATION or any(path == _OF_A_BUILDER for path, _ in unit.frames):
        return recipe  # an isolated build sees nothing of what is installed
    package, found = _missing(recipe, facts, unit.message)
    says = _says(package, facts, unit)
    if not says:
        return recipe
    title = hedged(recipe.title, says)
    in_log = recipe.title_in_log.replace(_CLAIMS_IT, _MAYBE, 1)
    recipe = replace(recipe, title=title, title_in_log=in_log)
    if any(one.id in _ITS_OWN and answer_all(one.when, facts) is Verdict.HOLDS for one in recipe.remedies):
        return recipe
    module = _module(package)
    look = RecipeRemedy(
        id=IN_THE_PYTHON_THAT_RUNS,
        title=(_ELSEWHERE if found else _HIDDEN).format(says=says),
        safety=Safety.DISPLAY_ONLY,
        why_this_safety="It only looks.",
        actions=(
            Advise(
                text=_HOW.format(package=package, module=module),
                commands=(f'{{python.executable}} -c "import sys; print(sys.executable); import {module}"',),
            ),
        ),
        when=(),
    )
    return replace(recipe, remedies=(look, *recipe.remedies))


def hedged(title: str, says: str) -> str:
    """A title that calls something not installed, with what the log says of it; another one as it is."""
    return title.replace(_CLAIMS_IT, _MAYBE, 1) + f" (the log {says})" if _CLAIMS_IT in title else title


def _says(package: str, facts: FactSet, unit: Unit) -> str:
    """How the log says that a package is installed: with a release, or in words alone; empty where it does not."""
    told = facts.fact(FactName("package", package, "version")) if package else None
    if told and isinstance(told.state, Known):
        if told.origin is Origin.PROBED:
            return ""
        if not any(told.how.startswith(f"line {one.number} of ") for one in unit.lines):
            return NAMES_IT.format(package=package, version=told.state.value)
    said = facts.value(_INSTALLED)
    module = _module(package)
    there = isinstance(said, tuple) and any(_module(str(one)) == module for one in said)
    return SAYS_IT.format(package=package) if package and there else ""


def _module(package: str) -> str:
    return BY_NAME[package].module if package in BY_NAME else package.replace("-", "_")


def _missing(recipe: Recipe, facts: FactSet, message: str) -> tuple[str, bool]:
    """The distribution that is said to be missing, and whether Python itself says so."""
    if _OFFERED.search(message):
        return "", False
    if found := _NOT_FOUND.search(message):
        name = _distribution(found["module"])
        part = name in BY_NAME and found["module"] != _module(name)  # what misses its part is found itself
        return ("" if part else name), True
    if said := _SAID_MISSING.search(message):
        word = next(filter(None, said.groups()))
        named = every_named(word)
        name = next(iter(named)) if len(named) == 1 else _distribution(word)
        if name in BY_NAME and not named and word.replace("-", "_") != _module(name):
            return "", False  # a part of it, which may be installed apart
        if name in BY_NAME or not (said["asked"] or said["absent"]):  # any word may stand there
            return name, False
    subject = facts.text(_SUBJECT)
    claims = _CLAIMS_IT in recipe.title and recipe.family is None and "No module named" not in message
    return (subject if claims and subject else ""), False


def _distribution(name: str) -> str:
    return canonical_name(distribution_of(name.replace("-", "_")))


def changes_nothing(remedy: Remedy, facts: FactSet) -> bool:
    """True where each thing that it asks an installer for is there, by what the log tells."""
    if remedy.id == IN_THE_PYTHON_THAT_RUNS or remedy.id in _ITS_OWN:
        return False
    commands = [command for one in remedy.actions for command in one.commands]
    asked = [found["what"] for command in commands for found in _INSTALLS.finditer(command)]
    return bool(asked) and all(_is_there(one, facts) for one in asked)


def why_in_vain(remedy: Remedy, facts: FactSet) -> Remedy | None:
    """A look at the Python that runs, where all that a remedy asks an installer for was put in before it failed."""
    if not changes_nothing(remedy, facts):
        return None
    commands = (command for one in remedy.actions for command in one.commands)
    for found in (found for command in commands for found in _INSTALLS.finditer(command)):
        for name, specifier in filter(None, map(_required, _packages(found["what"]))):
            if release := one_that_meets(name, specifier, facts):
                module, says = _module(name), PUT_IN.format(package=name, version=release)
                python = facts.text("python.executable") or "python"
                command = f'{python} -c "import sys; print(sys.executable); import {module}"'
                action = Advise(text=_WHICH.format(package=name), commands=(command,))
                return Remedy(
                    id=IN_THE_PYTHON_THAT_RUNS,
                    title=_ELSEWHERE.format(says=says),
                    safety=Safety.DISPLAY_ONLY,
                    why_this_safety="It only looks.",
                    actions=(ProposedAction(action=action, commands=(command,)),),
                )
    return None


def _is_there(asked: str, facts: FactSet) -> bool:
    """True where the packages of an installer's command line are there, in releases that it asks for."""
    wanted = list(_packages(asked))
    return not _MOVES.search(asked) and bool(wanted) and all(_has(one, facts) for one in wanted)


def _has(text: str, facts: FactSet) -> bool:
    required = _required(text)
    if required is None:
        return False
    name, specifier = required
    version = facts.text(FactName("package", name, "version"))
    return one_that_meets(name, specifier, facts) is not None or (
        version is not None and met(specifier, re.sub(r"\+.*", "", version)) is True
    )


def _required(text: str) -> tuple[str, str] | None:
    """Distribution and specifier of a requirement that asks for a release; another build of it may be meant else."""
    from packaging.requirements import InvalidRequirement, Requirement  # its parser, which few logs need

    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return None
    asks = wanted.specifier and not wanted.url
    return (canonical_name(wanted.name), str(wanted.specifier)) if asks else None


def _packages(asked: str) -> Iterator[str]:
    skip = False
    for word in _WORD.findall(asked):
        if _PIN.match(word):
            return  # a command of its own, and the last word
        if skip or word.startswith("-"):
            skip = not skip and word in _WITH_A_VALUE
            continue
        yield word.strip("'\"")
