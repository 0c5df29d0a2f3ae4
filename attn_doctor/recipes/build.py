"""Makes a `Recipe` from a recipe's TOML table, which is assumed valid: schema/ finds faults, this module does not.

An invalid table raises KeyError, TypeError or ValueError; shelf.py then gets the messages from the schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any, TypeVar

from attn_doctor.model.facts import FactName
from attn_doctor.model.findings import Safety, Severity
from attn_doctor.model.remedies import Action, Advise, action_from
from attn_doctor.recipes.later import Later
from attn_doctor.recipes.recipe import (
    Affected,
    AnyOf,
    AtLeast,
    Below,
    Changes,
    Condition,
    Family,
    LogPattern,
    Matches,
    OneOf,
    Present,
    Question,
    Recipe,
    RecipeRemedy,
)
from attn_doctor.recipes.where_possible import elsewhere

T = TypeVar("T")

#: `{gpu.name}` in a recipe's texts.
TEMPLATE = re.compile(r"\{([a-z]+\.[^{}\s]+)\}")

#: Prefix of the placeholders in a new recipe's skeleton.
TO_FILL_IN = "FILL IN:"


#: Reads the part of a table that only a recipe which is told needs; the wheel keeps it in a file of its own.
Details = Callable[[], dict[str, Any]]


def build(
    table: dict[str, Any], *, library: str, origin: str, file: Path, sha256: str, details: Details | None = None
) -> Recipe:
    """Makes one recipe from its table. `details` reads its remedies and cases, where the table is without them."""
    when = tuple(_condition(item) for item in table.get("when", ()))
    reached = tuple(_condition(item) for item in table.get("reached", ()))
    reached_severity = table.get("severity_when_reached")
    return Recipe(
        id=table["id"],
        library=library,
        title=table["title"],
        title_in_log=table.get("title_in_log", ""),
        severity=Severity(table["severity"]),
        severity_when_reached=Severity(reached_severity) if reached_severity else None,
        what=table["what"].strip(),
        why=table["why"].strip(),
        known_problems=table.get("known_problems", "").strip(),
        aliases=tuple(table.get("aliases", ())),
        explains=tuple(table.get("explains", ())),
        checked=str(table["checked"]),
        status=table["status"],
        since=table["since"],
        rank=table.get("rank", 50),
        silent=table.get("silent"),
        gives_way=table.get("gives_way", False),
        without_gpu=table.get("without_gpu", False),
        harmless=table.get("harmless", False),
        where=tuple(FactName.parse(text) for text in table.get("where", ())),
        for_each=_each(when + reached),
        when=when,
        unless=(*elsewhere(table.get("only_on", ())), *map(_condition, table.get("unless", ()))),
        reached=reached,
        references=tuple((item["kind"], item["url"]) for item in table["reference"]),
        logs=tuple(_log(item) for item in table.get("log", ())),
        remedies=_later(table, details, lambda whole: tuple(map(remedy, whole.get("remedy", ())))),
        case_tables=_later(table, details, lambda whole: tuple(whole["case"])),
        origin=origin,
        file=file,
        sha256=sha256,
    )


def build_family(
    table: dict[str, Any], *, library: str, origin: str, file: Path, sha256: str, details: Details | None = None
) -> Recipe:
    """Makes a family from its table: a recipe recognized only in logs, with checks as remedies; `details` as above."""
    return Recipe(
        id=table["id"],
        library=library,
        title=table["title"],
        title_in_log=table.get("title_in_log", ""),
        severity=Severity.INFO,
        severity_when_reached=None,
        what=table["what"].strip(),
        why=table["what"].strip(),
        known_problems="",
        aliases=(),
        explains=(),
        checked=str(table["checked"]),
        status="stable",
        since=table.get("since", "0.1.0"),
        rank=table.get("rank", 50),
        silent=None,
        gives_way=False,
        without_gpu=False,
        harmless=table.get("harmless", False),
        where=(),
        for_each=None,
        when=(),
        unless=(*elsewhere(table.get("only_on", ())), *map(_condition, table.get("unless", ()))),
        reached=(),
        references=tuple(("web", url) for url in table.get("references", ())),
        logs=tuple(_log(item) for item in table["log"]),
        remedies=_later(
            table, details, lambda whole: tuple(starmap(_check, enumerate(whole.get("check", ()), start=1)))
        ),
        case_tables=_later(table, details, lambda whole: tuple(whole["case"])),
        origin=origin,
        file=file,
        sha256=sha256,
        family=Family(
            about=table["about"],
            owners=tuple(table.get("owner", ())),
            exceptions=tuple(table.get("exception", ())),
            ours=table.get("ours", True),
            certain=table.get("certain", False),
        ),
    )


def _later(
    table: dict[str, Any], details: Details | None, make: Callable[[dict[str, Any]], tuple[T, ...]]
) -> Sequence[T]:
    """At once of a table that is whole, whose faults are to be found now."""
    return make(table) if details is None else Later(lambda: make(details()))


def _check(number: int, table: dict[str, Any]) -> RecipeRemedy:
    commands = (table["command"],) if "command" in table else ()
    asked = tuple(table.get("requirements", ()))
    looks = table.get("looks", not table.get("only_with_facts", False))
    return RecipeRemedy(
        id=f"check-{number}",
        title=table["text"].strip(),
        safety=Safety.DISPLAY_ONLY if looks else Safety.UNSAFE,
        why_this_safety="It only looks." if looks else "",
        actions=(Advise(text="", commands=commands, requirements=asked),) if commands or asked else (),
        when=tuple(_condition(item) for item in table.get("when", ())),
        unless=tuple(_condition(item) for item in table.get("unless", ())),
        only_with_facts=table.get("only_with_facts", False),
        changes=Changes(table["changes"]) if "changes" in table else None,
    )


def _each(conditions: tuple[Condition, ...]) -> str | None:
    for condition in conditions:
        for question in condition.questions if isinstance(condition, AnyOf) else (condition,):
            if question.fact.each:
                return question.fact.kind
    return None


def _condition(table: dict[str, Any]) -> Condition:
    if "any" in table:
        return AnyOf(questions=tuple(_question(item) for item in table["any"]))
    return _question(table)


def _question(table: dict[str, Any]) -> Question:
    fact = FactName.parse(table["fact"])
    if "present" in table:
        return Present(fact=fact, present=table["present"])
    if "affected" in table:
        between = table["affected"]
        return Affected(
            fact=fact,
            introduced=between.get("introduced"),
            fixed=between.get("fixed"),
            looked_at=between.get("looked_at"),
        )
    if "equals" in table:
        return OneOf(fact=fact, values=(table["equals"],))
    if "one_of" in table:
        return OneOf(fact=fact, values=tuple(table["one_of"]))
    if "below" in table:
        return Below(fact=fact, bound=table["below"])
    if "at_least" in table:
        return AtLeast(fact=fact, bound=table["at_least"])
    return Matches(fact=fact, pattern=table["matches"])


def _log(table: dict[str, Any]) -> LogPattern:
    kinds = table.get("kind", ())
    severity = table.get("severity")
    when = table.get("when")
    return LogPattern(
        pattern=table["pattern"],
        unless=table.get("unless"),
        nearby=table.get("nearby"),
        unless_nearby=table.get("unless_nearby"),
        raised_by=tuple(table.get("raised_by", ())),
        of_learning=table.get("of_learning"),
        kinds=(kinds,) if isinstance(kinds, str) else tuple(kinds),
        confirms=table.get("confirms", False),
        severity=Severity(severity) if severity else None,
        outranks=tuple(table.get("outranks", ())),
        wrapper=table.get("wrapper", False),
        only_with_facts=table.get("only_with_facts", False),
        when=None if when is None else tuple(_condition(item) for item in when),
        extracts=tuple((group, FactName.parse(name)) for group, name in table.get("extracts", {}).items()),
        reasons=table.get("reasons"),
        reasons_nearby=table.get("reasons_nearby", False),
    )


def remedy(table: dict[str, Any]) -> RecipeRemedy:
    """The remedy of a table whose form was examined."""
    return RecipeRemedy(
        id=table["id"],
        title=table["title"],
        safety=Safety(table["safety"]),
        why_this_safety=table.get("why_this_safety", "").strip(),
        actions=tuple(map(_action, table.get("actions", ()))),
        when=tuple(_condition(item) for item in table.get("when", ())),
        expires=str(table.get("expires", "")),
        fallback=table.get("fallback", False),
        only_with_facts=table.get("only_with_facts", False),
        unless=tuple(_condition(item) for item in table.get("unless", ())),
        safe_when=tuple(_condition(item) for item in table.get("safe_when", ())),
        why_safe=table.get("why_safe", "").strip(),
        changes=Changes(table["changes"]) if "changes" in table else None,
    )


def _action(table: dict[str, Any]) -> Action:
    return action_from(table["kind"], {key: value for key, value in table.items() if key != "kind"})
