"""Tells which package calls which where a call fails, and what it asks for: the two whose releases do not go together,
and the name, attribute or argument that the release which is there does not have.
"""

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
_Q = r"[`'\"]?"
#: What is asked for, by the grammar of Python's messages; of several in a message the last one is what it is about.
_ASKED = when_used(
    rf"cannot import name {_Q}(?P<imported>\w{{1,80}}){_Q} "
    rf"from (?:partially initialized module )?{_Q}(?P<module>[\w.]{{1,120}})"
    rf"|module {_Q}(?P<of>[A-Za-z][\w.]{{1,120}}){_Q} has no attribute {_Q}(?P<attribute>\w{{1,80}})"
    rf"|(?:type object )?{_Q}(?<!\w)(?P<class>(?!NoneType\b)[A-Z]\w{{1,80}}){_Q} "
    rf"(?:object )?has no attribute {_Q}(?P<member>\w{{1,80}})"
    rf"|\b(?P<function>[A-Za-z_][\w.<>]{{1,120}})\(\) "
    rf"(?:got an unexpected keyword argument {_Q}(?P<argument>\w{{1,80}})"
    rf"|takes (?:from )?\w+ |missing \d+ required)"
    rf"|No module named {_Q}(?P<submodule>[A-Za-z]\w{{1,60}}(?:\.\w+)+)"
)
#: Frames of these stand between caller and callee: they pass calls on, and look attributes up for others.
_PASSES_ON = when_used(
    r"torch[/\\](?:nn[/\\]modules[/\\]module|utils[/\\](?:checkpoint|_contextlib)|_dynamo[/\\]\w+)\.py"
    r"|accelerate[/\\](?:hooks|utils[/\\]operations)\.py|<frozen importlib|importlib[/\\]__init__\.py"
    r"|transformers[/\\]utils[/\\](?:generic|import_utils|deprecation)\.py"
)
#: Import name -> distribution, where neither tells the other.
_CALLED_OTHERWISE = {"nemo": "nemo-toolkit", "megatron": "megatron-core"}


def with_the_call(facts: FactSet, paths: Iterable[str], message: str) -> FactSet:
    """The facts, with the two packages where the message and the files in its frames tell both, and with what is asked
    for where the message says it.
    """
    found = caller_and_callee(paths, message)
    named = [("log.caller", found[0]), ("log.callee", found[1])] if found else []
    if asked := asked_for(message):
        named.append(("log.asked", asked))
    return facts.with_facts(_told(named)) if named else facts


def asked_for(message: str) -> str | None:
    """The name, attribute or argument that a message misses, as code writes it: `torch._six`, `Config.bias`,
    `forward(cache=)`, `f()`; None where it says none.
    """
    every = [*_ASKED.finditer(message)]
    if not every:
        return None
    told = every[-1].groupdict()  # behind others of its chain stands the exception that stopped it
    if function := told["function"]:
        name = function.rpartition(".")[2] if "<locals>" in function else function
        if name.startswith("__"):  # before Python 3.10 of no class
            return None
        return f"{name}({told['argument']}=)" if told["argument"] else f"{name}()"
    if told["submodule"]:
        return told["submodule"]
    whose = told["module"] or told["of"] or told["class"]
    return f"{whose.strip('.')}.{told['imported'] or told['attribute'] or told['member']}"


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


def _told(named: Iterable[tuple[str, str]]) -> Iterator[Fact]:
    for name, value in named:
        how = "the message" if name == "log.asked" else "the frames of the log"
        yield Fact(name=FactName.parse(name), state=Known(value), how=how, origin=Origin.DERIVED)
