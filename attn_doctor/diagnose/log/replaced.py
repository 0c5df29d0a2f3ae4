"""A package that was replaced under the process that had imported it: half of it is of one release, half of another.
No message of it tells what is wrong with either. A notebook's cells do that, and an update beside a running training.
"""

from __future__ import annotations

import re
from itertools import pairwise

from attn_doctor.diagnose.log.said_installed import PUT_IN
from attn_doctor.diagnose.log.unit import Unit
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.package_versions import canonical_name
from attn_doctor.probe.packages.known_packages import distribution_of
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.programs import ways
from attn_doctor.recipes.recipe import Recipe

_FRAME = when_used(r"\s*File \"[^\"\n]{0,300}(?:site|dist)-packages[^\"\n]{1,300}\", line \d+, in ")
#: No line of these is ever one that runs: the number is of the file as it was.
_NEVER_RUNS = when_used(r"\s*(?:#(?! ?type:)|(?:\"\"\"|''')\s*$)")
#: A notebook's arrow at such a line, and the frames that it stands in: a person's own cell may end a text there.
_ARROW = when_used(r"-{1,4}> ?\d{1,5} +(?P<line>.*)")
_NOTEBOOKS_FRAME = when_used(r"(?:File )?\[?(?:<ipython-input|[~/]\S|[A-Za-z]:[/\\]\S)[^\n]{0,400}\bin \w|Cell In")
_FROM_A_PACKAGE = when_used(
    r"cannot import name [`'\"]?(?P<name>\w{1,80})[`'\"]? from [`'\"]?(?P<module>[A-Za-z]\w{1,40})"
    r"|module [`'\"](?P<of>[A-Za-z]\w{1,40})[\w.]{0,80}[`'\"] has no attribute [`'\"]?(?P<attribute>\w{1,80})"
)
_ENVIRONMENT, _CLAIMED = FactName.parse("python.environment"), FactName.parse("log.name_claimed")
_PUT_IN = FactName.parse(PUT_IN)


def start_anew_first(recipe: Recipe, facts: FactSet, unit: Unit) -> Recipe:
    """Its first remedy a restart, where the log shows that files changed under a process that had loaded them."""
    if lines_do_not_fit(unit):
        way = ways()["start-the-process-anew"]
    elif facts.text(_ENVIRONMENT) == "notebook" and (facts.text(_CLAIMED) or _put_in_and_asks_itself(facts, unit)):
        way = ways()["restart-the-kernel"]
    else:
        return recipe
    return replace(recipe, remedies=(way, *recipe.remedies))


def lines_do_not_fit(unit: Unit) -> bool:
    """True where a frame of an installed package shows a comment or a docstring's quotes as its line."""
    above = unit.lines[: unit.message_at]
    if any(_FRAME.match(line.text) and _NEVER_RUNS.match(below.text) for line, below in pairwise(above)):
        return True
    installed = False
    for line in above:
        if _NOTEBOOKS_FRAME.match(line.text):
            installed = "site-packages" in line.text or "dist-packages" in line.text
        elif installed and (arrow := _ARROW.match(line.text)) and _NEVER_RUNS.match(arrow["line"]):
            return True
    return False


def _put_in_and_asks_itself(facts: FactSet, unit: Unit) -> bool:
    """True where the package that lacks a name was put in while the notebook ran, and no line of a cell names that."""
    found = _FROM_A_PACKAGE.search(unit.message)
    put_in = facts.value(_PUT_IN)
    if found is None or not isinstance(put_in, tuple):
        return False
    if canonical_name(distribution_of(found["module"] or found["of"])) not in put_in:
        return False
    asked = re.compile(rf"\b{found['name'] or found['attribute']}\b")
    return not any(asked.search(line.text) for line in unit.lines[: unit.message_at])
