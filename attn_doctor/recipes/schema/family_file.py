"""The format of a file of families, part of the recipe format: reports every fault of a file at once."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr, ValidationError, model_validator

from attn_doctor.recipes.recipe import Changes
from attn_doctor.recipes.schema.fields import Id, Place, Prose, Table, VersionText, Written
from attn_doctor.recipes.schema.recipe_file import Case, Condition, Log, refuse

#: What a message can be about.
About = Literal[
    "limit", "backend", "head-dim", "cuda-version", "symbol", "library", "build", "missing-module", "dtype", "mask",
    "numerics", "gpu", "memory", "communication", "crash", "compile", "option", "api",
]  # fmt: skip


#: Of all packages and systems together: their conditions choose the few that one log is shown, so that nothing else
#: depends on how many there are. More are a family that should be several.
_MOST_CHECKS = 64


class _Check(Table):
    text: Prose
    command: Prose = ""
    requirements: tuple[Prose, ...] = ()
    when: tuple[Condition, ...] = ()
    unless: tuple[Condition, ...] = ()
    only_with_facts: StrictBool = False
    looks: StrictBool | None = None  # unset: a step where facts alone choose it, else a look
    changes: Changes | None = None


class _Family(Table):
    id: Id
    title: Prose
    title_in_log: Prose = ""
    about: About
    owner: tuple[Annotated[StrictStr, Field(pattern=r"^[A-Za-z_]\w*$")], ...] = ()
    exception: tuple[Annotated[StrictStr, Field(pattern=r"^[A-Z]\w*$")], ...] = ()
    ours: StrictBool = True
    certain: StrictBool = False
    harmless: StrictBool = False
    rank: StrictInt = 50
    checked: date
    since: VersionText = "0.1.0"
    what: Prose
    references: tuple[Annotated[Written, Field(pattern=r"^https?://\S+$")], ...] = ()
    only_on: tuple[Place, ...] = ()
    unless: tuple[Condition, ...] = ()
    check: Annotated[tuple[_Check, ...], Field(max_length=_MOST_CHECKS)] = ()
    log: Annotated[tuple[Log, ...], Field(min_length=1)]
    case: Annotated[tuple[Case, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _whole(self) -> _Family:
        expected = {case.expect for case in self.case}
        if "finds" not in expected or (self.ours and "clears" not in expected):
            raise ValueError("at least one case that finds it, and of a trouble of ours one that clears it")
        if self.ours and not self.check:
            raise ValueError("no [[family.check]]: a family says what splits its causes")
        if self.ours and not self.references:
            raise ValueError("no references")
        if any(one.confirms or one.severity or one.outranks for one in self.log):
            raise ValueError("a family confirms nothing, gates nothing and outranks nothing: it stands in for recipes")
        return self


class _File(Table):
    family: Annotated[tuple[_Family, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _distinct(self) -> _File:
        ids = [one.id for one in self.family]
        if len(set(ids)) != len(ids):
            raise ValueError("two families with one id")
        return self


def check(table: dict[str, Any], *, origin: str) -> None:
    """Holds the TOML table of one file of families against the format.

    Raises BrokenRecipe with every fault of the file.
    """
    try:
        _File.model_validate(table)
    except ValidationError as error:
        refuse(error, what="file of families", origin=origin)
