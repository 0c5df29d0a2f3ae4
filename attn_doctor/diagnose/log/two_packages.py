"""Tells which package calls which where a call fails: the two whose releases do not go together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attn_doctor.diagnose.log.owners import owner
from attn_doctor.model.facts import Fact, FactName, FactSet, Known, Origin
from attn_doctor.probe.packages.known_packages import distribution_of
from attn_doctor.quick_patterns import when_used

#: What an import names; the module that it is in may be a dotted one.
_IMPORTED_FROM = when_used(
    r"cannot import name [`'\"]?\w+[`'\"]? from (?:partially initialized module )?[`'\"]?(?P<top>\w+)"
)
#: Frames of these stand between caller and callee: they pass calls on, and look attributes up for others.
_PASSES_ON = when_used(
    r"torch[/\\](?:nn[/\\]modules[/\\]module|utils[/\\](?:checkpoint|_contextlib)|_dynamo[/\\]\w+)\.py"
    r"|accelerate[/\\](?:hooks|utils[/\\]operations)\.py|<frozen importlib|importlib[/\\]__init__\.py"
    r"|transformers[/\\]utils[/\\](?:generic|import_utils|deprecation)\.py"
)
#: Import name -> distribution, where neither tells the other.
_CALLED_OTHERWISE = {"nemo": "nemo-toolkit", "megatron": "megatron-core"}


def with_caller(facts: FactSet, paths: Iterable[str], message: str) -> FactSet:
    """The facts, with the two packages where the message and the files in its frames tell both."""
    found = caller_and_callee(paths, message)
    return facts if found is None else facts.with_facts(_told(*found))


def caller_and_callee(paths: Iterable[str], message: str) -> tuple[str, str] | None:
    """The distributions of the package that calls and of the one that is called; None where one of them is not told."""
    owners = [name for path in paths if not _PASSES_ON.search(path) and (name := owner(path))]
    if imported := _IMPORTED_FROM.search(message):
        callee = imported["top"]
    elif owners:
        callee = owners[-1]
    else:
        return None
    caller = next((name for name in reversed(owners) if name != callee), None)
    return None if caller is None else (_distribution(caller), _distribution(callee))


def _distribution(module: str) -> str:
    return _CALLED_OTHERWISE.get(module) or distribution_of(module)


def _told(caller: str, callee: str) -> Iterator[Fact]:
    for name, value in (("log.caller", caller), ("log.callee", callee)):
        yield Fact(name=FactName.parse(name), state=Known(value), how="the frames of the log", origin=Origin.DERIVED)
