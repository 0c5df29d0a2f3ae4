"""Puts what somebody who only uses a program can do before what changes its code.

A log often ends in the code of an application, or of a node or an extension that was added to it. Its reader updates
that, or starts it with another switch; a cast or another call is for its authors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from attn_doctor.diagnose.log.done import settings_done, settings_named
from attn_doctor.diagnose.log.unit import Unit
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.remedies import Advise
from attn_doctor.quick_dataclasses import replace
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes.data.programs import program, program_of_engine, program_told, programs, ways
from attn_doctor.recipes.recipe import Changes, Recipe, RecipeRemedy

PROGRAM = "log.program"
KEPT_BY = "log.kept_by"
_OWN_CODE = FactName.parse("log.own_code")
#: What was added to a program: its folder, below the one for all of them.
_ADDED = when_used(
    r"(?P<folder>(?:[A-Za-z]:)?[^:*?\"<>|\n]{0,300}?(?:^|/)(?:custom_nodes|extensions)/"
    r"(?P<name>[\w.@+ -]{1,80}))(?=/| module\b)"
)
#: Code that other code only passes through: of packages and of Python itself.
_PASSED_THROUGH = when_used(r"(?:site|dist)-packages/|/lib/python3|/Lib/(?!.*/)|^<|custom_nodes|(?:^|/)extensions/")
#: Remedies that a program's switch for one precision takes the place of, unless it names a dtype that does not work.
_BF16 = "bf16|bfloat16"
_SWITCHES_NOT_TO = {
    Changes.PRECISION: None,
    Changes.NO_BF16: when_used(_BF16),
    Changes.NO_HALF: when_used(rf"{_BF16}|fp16|float16|(?<!no-)half"),
}
#: A switch that is a variable of the environment.
_VARIABLE = when_used(r"[A-Z][A-Z_]*=\S+")
_CALL = when_used(r"\s*File \"(?P<path>[^\"\n]{1,400})\", line \d+")
#: So many calls in the program's own code after a wrapper of an addition: the addition only wraps it.
_WRAPPED = 3
#: Words of ComfyUI before the folder of a node that it could not load.
_BEFORE_A_PATH = when_used(r"^.{0,80}?Cannot import (?=\S)", re.MULTILINE)
#: Topics of families whose causes are in the code that calls, which only its authors change.
_OF_ITS_AUTHORS = frozenset({"api", "mask", "dtype"})


def first_of(told: Mapping[str, int], engines: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The log's program, with the line that tells it: of several the one that stands first in the table, for others run
    within it; where none is told, the one serving engine.
    """
    if name := next((one.name for one in programs() if one.name in told), None):
        yield name, told[name]
    elif len(engines) == 1 and (row := program_of_engine(next(iter(engines)))):
        yield row.name, next(iter(engines.values()))


def told(line: str) -> str | None:
    """The program that a line tells."""
    found = program_told(line.replace("\\", "/"))
    return found.name if found else None


def switches(name: str) -> Iterator[tuple[str, str]]:
    """The facts that follow from the program."""
    row = program(name)
    if row is None:
        return
    for switch in ("precision", "half", "attention", "memory", "slices", "vae"):
        if text := getattr(row, switch):
            yield f"log.switch_{switch}", text
    if row.update:
        yield "log.program_update", row.update
    if row.reentrant:
        yield from zip(("log.switch_reentrant", "log.switch_not_reentrant"), row.reentrant, strict=True)


def plugin_of(unit: Unit) -> tuple[str, str] | None:
    """Name and folder of what was added to a program, in whose code the unit ends; the folder is empty where the log
    has its end alone.
    """
    return _plugin_in((*(path for path, _ in reversed(unit.frames)), unit.message))


def _plugin_in(texts: Iterable[str]) -> tuple[str, str] | None:
    """That of some frames, the innermost first, and of what is said below them."""
    of_program = 0
    for text in texts:
        path = text.replace("\\", "/")
        if "custom_nodes" in path or "extensions" in path:
            found = _ADDED.search(_BEFORE_A_PATH.sub("", path, count=1))
            if found:
                folder = found["folder"].strip()
                return found["name"], "" if folder.startswith(".") or ": " in folder else folder
        of_program += not _PASSED_THROUGH.search(path)
        if of_program == _WRAPPED:
            return None
    return None


class ErrorReport:
    """Reads ComfyUI's error report, in which the calls stand behind the message, under a heading of their own; and the
    calls with which a log ends that was cut before their message."""

    def __init__(self) -> None:
        self._frames: list[str] | None = None
        self._last: list[str] = []

    def told(self, line: str) -> Iterator[tuple[str, str]]:
        """The facts about what was added, once the calls are all read."""
        if "File " in line and (found := _CALL.match(line)):
            self._last.append(found["path"])
        elif self._last and not line.startswith((" ", "\t", "Traceback")):
            self._last.clear()  # their message, to which they belong
        if line.startswith("## Stack Trace"):
            self._frames = []
        elif self._frames is not None and (found := _CALL.match(line)):
            self._frames.append(found["path"])
        elif self._frames and line.startswith(("## ", "```")):
            frames, self._frames = self._frames, None
            yield from _added(frames)

    def ended(self) -> Iterator[tuple[str, str]]:
        """Those of the calls that no message followed: ComfyUI has said it above them."""
        return _added(self._last)


def _added(frames: list[str]) -> Iterator[tuple[str, str]]:
    """The facts about what was added, of calls, the innermost last."""
    if plugin := _plugin_in(reversed(frames)):
        yield "log.plugin", plugin[0]
        if plugin[1]:
            yield "log.plugin_folder", plugin[1]


def for_users(recipe: Recipe, facts: FactSet) -> Recipe:
    """The recipe, its remedies led by what the log's program offers; where the call is in the code of whoever wrote the
    log, as it is."""
    if facts.text(PROGRAM) is None or facts.value(_OWN_CODE):
        return recipe
    row = program(facts.text(PROGRAM))
    serves = row is not None and bool(row.engine)
    if recipe.family is not None and recipe.family.ours and recipe.family.about in _OF_ITS_AUTHORS:
        # A family knows the engines itself; what it says of one stands before the update.
        return recipe if serves else replace(recipe, remedies=(_update(facts), *recipe.remedies))
    if not any(one.changes for one in recipe.remedies):
        return recipe
    trains = row is not None and bool(row.update)  # another attention does not make up for the precision of a training
    first: list[RecipeRemedy] = []
    own: list[RecipeRemedy] = []
    of_code: list[RecipeRemedy] = []
    for one in recipe.remedies:
        here = list(_ways(one, facts, recipe.library))
        if one.changes is Changes.ATTENTION:
            # A switch costs its reader less than a package; a fallback keeps its place here, too.
            (first if here and not one.fallback and not trains else own).extend(here or [one])
        else:
            own += here or [one]
            of_code += [one] if here else []
    return replace(recipe, remedies=(*first, *own, *of_code))


def _ways(written: RecipeRemedy, facts: FactSet, library: str) -> Iterator[RecipeRemedy]:
    """How somebody who uses the program reaches what the remedy changes; conditions stay those of the remedy."""
    plugin = facts.text("log.plugin") is not None
    if written.changes is Changes.ADDITION and not plugin:
        return
    if written.changes is Changes.ATTENTION:
        row = program(facts.text(PROGRAM))
        if row is not None and row.engine and facts.text("log.innermost_owner") == "transformers":
            return  # an engine's switch is for its own kernels, and this is the model's own code below it
        attention = facts.text("log.switch_attention")
        if attention is not None and not {*settings_named(attention)} & {*settings_done(facts)}:  # else it is as it was
            variable = "attention-by-variable" if _VARIABLE.fullmatch(attention) else "attention-by-switch"
            of_library = f"{library}-out-of-the-program"
            of_plugin = of_library if of_library in ways() else "attention-by-switch-of-the-plugin"
            way = ways()[of_plugin if plugin else variable]
            yield replace(written, title=way.title, actions=way.actions)
    elif written.changes is not None:
        not_to = _SWITCHES_NOT_TO.get(written.changes)
        if not_to is not None and not_to.search(facts.text("log.switch_precision") or ""):
            return
        update = _update(facts)
        if written.changes is Changes.CODE:  # where no release mends it, that is what to ask its authors for
            update = replace(update, actions=(*update.actions, Advise(text=written.title)))
        precise = facts.text("log.switch_precision")
        asked = {*settings_named(precise or "")}
        switch = written.changes in _SWITCHES_NOT_TO and precise is not None
        switch = switch and not (asked and asked <= {*settings_done(facts)})  # it is on already
        precision = ways()["one-precision-by-switch"]
        for one in ((update, precision) if plugin else (precision, update)) if switch else (update,):
            yield replace(
                one, when=written.when, unless=written.unless, only_with_facts=written.only_with_facts, fallback=True
            )


def _update(facts: FactSet) -> RecipeRemedy:
    """How what was added to the program, or the program, gets a newer release."""
    row = program(facts.text(PROGRAM))
    if row is not None and row.update:
        if facts.text(KEPT_BY) is not None:
            return ways()["releases-of-the-repository"]
        packages = ways()["update-the-packages"]
        return replace(packages, actions=(Advise(text=row.update, commands=row.commands),))
    return ways()["update-the-program" if facts.text("log.plugin") is None else "update-the-plugin"]
