"""What a log says is there already: a remedy that asks an installer for that would change nothing, and a package that a
message calls missing is missing in the Python that runs alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement

from attn_doctor.model.facts import FactName, FactSet, Known, Origin
from attn_doctor.model.findings import Remedy, Safety
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.model.remedies import Advise
from attn_doctor.probe.packages.known_packages import distribution_of
from attn_doctor.probe.packages.requirements import met
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.recipe import Recipe, RecipeRemedy

#: The remedy that looks at it.
IN_THE_PYTHON_THAT_RUNS = "in-the-python-that-runs"

#: The message itself says that a package is not there, by its import name or its own.
_MISSING = when_used(
    r"No module (?:named )?'?(?P<module>[A-Za-z]\w{1,60})'?(?=[\s;.,]|$)(?!\.\w)"
    r"|(?:[Pp]ackage|[Ll]ibrary) [`'\"]?(?P<package>[A-Za-z][\w-]{2,60})[`'\"]? (?:seems to be not|is not|was not)"
    r" (?:installed|found|available)"
)
_ELSEWHERE = (
    "The log names {package} {version} as installed: the Python that runs it is another one, or was not started anew "
    "since. Compare the two, and install with the one that runs"
)
#: With these an installer moves, or makes anew, what is there.
_MOVES = when_used(r"(?<![\w-])(?:-[A-Za-z]*U|--upgrade|--force-reinstall|--reinstall|--no-binary|-[er]|--editable)(?![\w-])")
_INSTALLS = when_used(r"\b(?:pip3?|conda|mamba) install (?P<what>[^\n;&|]+)")
_WORD = when_used(r"\"[^\"]*\"|'[^']*'|\S+")
#: Their next word is no package.
_WITH_A_VALUE = frozenset({"-c", "-n", "-i", "-f", "--channel", "--index-url", "--extra-index-url", "--find-links", "--name"})


def in_the_python_that_runs(recipe: Recipe, facts: FactSet, message: str) -> Recipe:
    """First of its remedies a look at the Python that runs, where the log says that what a message misses is installed."""
    missing = _MISSING.search(message)
    if missing is None:
        return recipe
    package = canonical_name(distribution_of((missing["module"] or missing["package"]).replace("-", "_")))
    told = facts.fact(FactName("package", package, "version"))
    if not isinstance(told.state, Known) or told.origin is Origin.PROBED:
        return recipe
    look = RecipeRemedy(
        id=IN_THE_PYTHON_THAT_RUNS,
        title=_ELSEWHERE.format(package=package, version=told.state.value),
        safety=Safety.DISPLAY_ONLY,
        why_this_safety="It only looks.",
        actions=(
            Advise(
                text="In the failing program or notebook: import sys; print(sys.executable). That path, with "
                f"-m pip show {package}, says whether it is there; with -m pip install it gets there.",
                commands=("{python.executable} -c \"import sys; print(sys.executable)\"", f"{{python.executable}} -m pip show {package}"),
            ),
        ),
        when=(),
    )
    return replace(recipe, remedies=(look, *recipe.remedies))


def changes_nothing(remedy: Remedy, facts: FactSet) -> bool:
    """True where each thing that it asks an installer for is there, by what the log tells."""
    commands = [command for one in remedy.actions for command in one.commands]
    asked = [found["what"] for command in commands for found in _INSTALLS.finditer(command)]
    return bool(asked) and all(_is_there(one, facts) for one in asked)


def _is_there(asked: str, facts: FactSet) -> bool:
    if _MOVES.search(asked):
        return False
    found = False
    for text in _packages(asked):
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            return False
        version = facts.text(FactName("package", canonical_name(wanted.name), "version"))
        if wanted.url or version is None or met(str(wanted.specifier) or ">=0", re.sub(r"\+.*", "", version)) is not True:
            return False
        found = True
    return found


def _packages(asked: str) -> Iterator[str]:
    skip = False
    for word in _WORD.findall(asked):
        if skip or word.startswith("-"):
            skip = not skip and word in _WITH_A_VALUE
            continue
        yield word.strip("'\"")
