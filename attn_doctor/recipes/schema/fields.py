"""Validates single values of a recipe: ids, versions, fact names, patterns, prose. Imported by the schema alone."""

from __future__ import annotations

import re
from typing import Annotated, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
)

from attn_doctor.model.facts import FactName
from attn_doctor.model.kinds import PLURAL
from attn_doctor.model.vocabulary import close_names, term_of
from attn_doctor.recipes.build import TEMPLATE, TO_FILL_IN
from attn_doctor.recipes.where_possible import PLACES

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
#: Nested quantifiers can take exponential time on a long log line.
_NESTED = re.compile(r"\((?:[^()\\]|\\.)*[+*](?:[^()\\]|\\.)*\)[+*{]")


def fact_name(text: Any) -> FactName:
    """The name of a fact in the vocabulary. Raises ValueError with similar names."""
    if not isinstance(text, str):
        raise ValueError("a fact name is a string")
    name = FactName.parse(text)
    if term_of(name) is None:
        close = close_names(text)
        raise ValueError(f"unknown fact {text!r}" + (f"; did you mean {' or '.join(close)}?" if close else ""))
    return name


def _id(text: str) -> str:
    if not _ID.match(text):
        raise ValueError(f"not an id (small letters, digits and single dashes): {text!r}")
    return text


def _written(text: str) -> str:
    if TO_FILL_IN in text:
        raise ValueError(f"still to be filled in: {text.partition(TO_FILL_IN)[2].strip()}")
    return text


def _pattern(text: str) -> str:
    _written(text)
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if _NESTED.search(text):
        raise ValueError("a quantifier inside a quantified group: such a pattern can take exponential time")
    return text


def filled_text(text: str) -> str:
    """Prose with placeholders for facts. Raises ValueError."""
    _written(text)
    for spelled in TEMPLATE.findall(text):
        fact_name(spelled)
    return text


def version_text(text: str) -> str:
    """A version, unchanged. Raises ValueError."""
    try:
        Version(text)
    except InvalidVersion:
        raise ValueError(f"not a version: {text!r}") from None
    return text


def _plural_kind(text: str) -> str:
    if text not in PLURAL:
        raise ValueError(f"not a kind that comes several to a node: {text!r}; one of {', '.join(sorted(PLURAL))}")
    return text


def _place(text: str) -> str:
    if text not in PLACES:
        raise ValueError(f"not a place: {text!r}; one of {', '.join(PLACES)}")
    return text


def _releases(text: str) -> str:
    try:
        named = Requirement(text)
    except InvalidRequirement:
        raise ValueError(f"not a distribution with its releases: {text!r}") from None
    if not named.specifier or named.url or named.marker or named.extras:
        raise ValueError(f"wants a name and a range of releases alone: {text!r}")
    return text


Name = Annotated[FactName, BeforeValidator(fact_name)]
Id = Annotated[StrictStr, AfterValidator(_id)]
PluralKind = Annotated[StrictStr, AfterValidator(_plural_kind)]
Pattern = Annotated[StrictStr, AfterValidator(_pattern)]
Place = Annotated[StrictStr, AfterValidator(_place)]
Prose = Annotated[StrictStr, AfterValidator(filled_text)]
Releases = Annotated[StrictStr, AfterValidator(_releases)]
Written = Annotated[StrictStr, AfterValidator(_written)]
VersionText = Annotated[StrictStr, AfterValidator(version_text)]
Single = StrictBool | StrictInt | StrictFloat | StrictStr


class Table(BaseModel):
    """Base of all tables of a recipe: unknown keys are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)
