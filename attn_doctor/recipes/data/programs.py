"""Programs in whose code other people's logs end, and their own switches: the table recipes/programs.toml."""

from __future__ import annotations

import re
from functools import cache

from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.quick_patterns import when_used
from attn_doctor.recipes import shelf
from attn_doctor.recipes.build import remedy
from attn_doctor.recipes.literals import required
from attn_doctor.recipes.recipe import RecipeRemedy

TABLE = "programs.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One row of the table, whose head describes the fields; what it has no switch for is empty."""

    name: str
    told_by: re.Pattern[str] | None
    """None for a serving engine, which its records and its processes tell."""
    sources: tuple[str, ...]
    engine: str = ""
    """The distribution of the serving engine that it is."""
    precision: str = ""
    attention: str = ""
    half: str = ""
    memory: str = ""
    slices: str = ""
    vae: str = ""
    reentrant: tuple[str, ...] = ()
    """Its switch for reentrant checkpointing, and that against it."""
    update: str = ""
    """How its packages are updated; empty where its folder is."""
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """Research code that keeps the release of transformers which it was written for."""

    name: str
    told_by: re.Pattern[str]
    asks: str
    """The requirement in its own files."""
    sources: tuple[str, ...]


def program(name: str | None) -> Program | None:
    """The row of that name."""
    return next((one for one in programs() if one.name == name), None)


def program_told(line: str) -> Program | None:
    """The program that a line of its log tells, the paths of which have slashes."""
    return next((one for one in programs() if one.told_by and _tells(one.told_by, line)), None)


def _tells(told_by: re.Pattern[str], line: str) -> bool:
    """Whether it is found in the line. Most are never compiled, for none of the texts that they need stands there."""
    texts = required(told_by.pattern)
    may = not texts or any(text in line if " " not in text else text in " ".join(line.split()) for text in texts)
    return may and told_by.search(line) is not None


def program_of_engine(engine: str) -> Program | None:
    """The row of the serving engine of this distribution."""
    return next((one for one in programs() if one.engine == engine), None)


@cache
def signs() -> tuple[str, ...]:
    """Of these one stands in every line that tells a program, whichever way the slashes of its paths lean."""
    patterns = [one.told_by.pattern for one in programs() if one.told_by]
    texts = {max(text.split("/"), key=len) for pattern in patterns for text in required(pattern)}
    return tuple(sorted(text for text in texts if not any(other in text for other in texts - {text})))


@cache
def ways() -> dict[str, RecipeRemedy]:
    """By its id what somebody can do who only uses a program."""
    return {row["id"]: remedy(row) for row in shelf.table(TABLE)["way"]}


@cache
def programs() -> tuple[Program, ...]:
    """Every row, in the table's order."""
    return tuple(
        Program(
            name=row["name"],
            told_by=when_used(row["told_by"]) if "told_by" in row else None,
            engine=row.get("engine", ""),
            sources=tuple(row["sources"]),
            precision=row.get("precision", ""),
            attention=row.get("attention", ""),
            half=row.get("half", ""),
            memory=row.get("memory", ""),
            slices=row.get("slices", ""),
            vae=row.get("vae", ""),
            reentrant=tuple(row.get("reentrant", ())),
            update=row.get("update", ""),
            commands=tuple(row.get("commands", ())),
        )
        for row in shelf.table(TABLE)["program"]
    )


def repository_told(line: str) -> Repository | None:
    """The research code that a path in this line tells, whichever way its slashes lean."""
    path = line.replace("\\", "/")
    return next((one for one in repositories() if _tells(one.told_by, path)), None)


@cache
def repository_signs() -> tuple[str, ...]:
    """Of these one stands in every line that tells one."""
    texts = {max(text.split("/"), key=len) for one in repositories() for text in required(one.told_by.pattern)}
    return tuple(sorted(text for text in texts if not any(other in text for other in texts - {text})))


@cache
def repositories() -> tuple[Repository, ...]:
    """Every row of them, in the table's order."""
    return tuple(
        Repository(name=row["name"], told_by=when_used(row["told_by"]), asks=row["asks"], sources=tuple(row["sources"]))
        for row in shelf.table(TABLE)["repository"]
    )
