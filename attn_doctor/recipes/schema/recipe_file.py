"""The recipe format: reports every fault of a recipe file at once, each with its path in the file.

Only this folder and ../data/measured.py import pydantic, which takes 0.18 s of the half second
that `check --quick` may take. The tests validate the bundled recipes; folders named with --recipes are validated each
time they are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Annotated, Any, Literal, NoReturn

from packaging.version import Version
from pydantic import (
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    ValidationError,
    model_validator,
)

from attn_doctor.errors import BrokenRecipe
from attn_doctor.model.findings import Safety, Severity
from attn_doctor.model.remedies import KINDS
from attn_doctor.model.vocabulary import ValueType, term_of, value_fault
from attn_doctor.recipes.literals import SHORTEST, required
from attn_doctor.recipes.recipe import Changes, plain
from attn_doctor.recipes.schema.actions import Action
from attn_doctor.recipes.schema.fields import (
    Id,
    Name,
    Pattern,
    Place,
    PluralKind,
    Prose,
    Single,
    Table,
    VersionText,
    Written,
    fact_name,
    version_text,
)


class _Range(Table):
    introduced: VersionText | None = None
    fixed: VersionText | None = None
    looked_at: VersionText | None = None

    @model_validator(mode="after")
    def _bounded(self) -> _Range:
        if self.introduced is None and self.fixed is None:
            raise ValueError("neither introduced nor fixed")
        if self.introduced and self.fixed and Version(self.introduced) >= Version(self.fixed):
            raise ValueError("introduced is not before fixed")
        if self.fixed is None and self.looked_at is None:
            raise ValueError(
                "open towards newer releases: say up to which one somebody looked (looked_at); what every later "
                "release has as well is no trouble that was introduced, but a bound (at_least)"
            )
        if self.fixed is not None and self.looked_at is not None:
            raise ValueError("looked_at is for a range without fixed")
        return self


class _Question(Table):
    fact: Name
    for_each: PluralKind | None = None
    present: StrictBool | None = None
    affected: _Range | None = None
    equals: Single | None = None
    one_of: tuple[Single, ...] | None = None
    below: Single | None = None
    at_least: Single | None = None
    matches: Pattern | None = None

    @model_validator(mode="after")
    def _one(self) -> _Question:
        questions = ("present", "affected", "equals", "one_of", "below", "at_least", "matches")
        asked = [key for key in questions if getattr(self, key) is not None]
        if len(asked) != 1:
            raise ValueError(f"asks {len(asked)} questions of {self.fact}; exactly one of {', '.join(questions)}")
        term = term_of(self.fact)
        assert term is not None
        if self.affected and term.kind is not ValueType.VERSION:
            raise ValueError(f"{self.fact} is {term.kind.value}, not a version: `affected` cannot be asked of it")
        for bound in (self.below, self.at_least):
            if bound is None:
                continue
            if term.kind is ValueType.VERSION:
                version_text(str(bound))
            elif term.kind is ValueType.CAPABILITY:
                if not re.fullmatch(r"\d+\.\d", str(bound)):
                    raise ValueError(f'a compute capability reads "9.0", not {bound!r}')
            elif not isinstance(bound, (int, float)) or isinstance(bound, bool):
                raise ValueError(f"{self.fact} is {term.kind.value}: {bound!r} is no bound for it")
        if self.fact.each and self.for_each != self.fact.kind:
            raise ValueError(f'{self.fact} speaks of several: add for_each = "{self.fact.kind}"')
        if not self.fact.each and self.for_each is not None:
            raise ValueError(f"{self.fact} names one subject: no for_each")
        return self


class _Any(Table):
    any: Annotated[tuple[_Question, ...], Field(min_length=2)]


def _form(table: Any) -> str:
    return "several" if isinstance(table, dict) and "any" in table else "one"


Condition = Annotated[Annotated[_Any, Tag("several")] | Annotated[_Question, Tag("one")], Discriminator(_form)]


class _Reference(Table):
    kind: Literal["report", "fix", "introduced", "article", "evidence", "package", "web"]
    url: Annotated[Written, Field(pattern=r"^https?://\S+$")]


UnitKind = Literal["traceback", "message", "compiler", "warning", "line"]


class Log(Table):
    """One [[log]]."""

    pattern: Pattern
    unless: Pattern | None = None
    nearby: Pattern | None = None
    unless_nearby: Pattern | None = None
    raised_by: tuple[Annotated[StrictStr, Field(pattern=r"^[A-Za-z][\w-]*$")], ...] = ()
    of_learning: Literal["possible", "shown"] | None = None
    kind: UnitKind | tuple[UnitKind, ...] = ()
    confirms: StrictBool = False
    severity: Severity | None = None
    outranks: tuple[Id, ...] = ()
    wrapper: StrictBool = False
    only_with_facts: StrictBool = False
    when: tuple[Condition, ...] | None = None
    extracts: dict[StrictStr, Name] = Field(default_factory=dict)
    reasons: Pattern | None = None
    reasons_nearby: StrictBool = False

    @model_validator(mode="after")
    def _sound(self) -> Log:
        groups = re.compile(self.pattern).groupindex
        for group, fact in self.extracts.items():
            if group not in groups:
                raise ValueError(f"extracts {group!r}, which is no named group of the pattern")
            if fact.each:
                raise ValueError(f"{fact} speaks of several: a text tells of one subject, such as gpu.0")
        if self.confirms and self.when is not None:
            raise ValueError("the text alone proves it (confirms), so that no conditions of its own (when) are asked")
        if self.only_with_facts and (self.confirms or not self.when):
            raise ValueError("only_with_facts is for a text with conditions of its own (when) that does not confirm")
        if self.reasons is not None and "reason" not in re.compile(self.reasons).groupindex:
            raise ValueError("reasons: no group (?P<reason>…)")
        if self.reasons is None and self.reasons_nearby:
            raise ValueError("reasons_nearby without reasons")
        if not required(self.pattern):
            raise ValueError(
                f"no {SHORTEST} literal characters in a row that every match holds: such a pattern cannot be looked "
                "for in a large log"
            )
        return self


class _Remedy(Table):
    id: Id
    title: Prose
    safety: Safety
    why_this_safety: Prose = ""
    actions: tuple[Action, ...] = ()
    when: tuple[Condition, ...] = ()
    expires: date | None = None
    fallback: bool = False
    only_with_facts: bool = False
    unless: tuple[Condition, ...] = ()
    safe_when: tuple[Condition, ...] = ()
    why_safe: Prose = ""
    changes: Changes | None = None

    @model_validator(mode="after")
    def _says_why(self) -> _Remedy:
        if bool(self.safe_when) != bool(self.why_safe) or (self.safe_when and self.safety is not Safety.UNSAFE):
            raise ValueError("safe_when is for an unsafe remedy, and needs why_safe")
        if self.only_with_facts and not self.when:
            raise ValueError("only_with_facts without a condition: give it [[remedy.when]]")
        if self.safety is not Safety.SAFE and not self.why_this_safety:
            raise ValueError("a remedy that is not safe says why: why_this_safety")
        return self


class Case(Table):
    """One [[case]]."""

    facts: dict[StrictStr, Any] = Field(default_factory=dict)
    unknown: tuple[Name, ...] = ()
    log: Written | None = None
    expect: Literal["finds", "clears", "open"]
    severity: Severity | None = None
    offers: tuple[Id, ...] = ()
    reasons: tuple[Written, ...] = ()

    @model_validator(mode="after")
    def _sound(self) -> Case:
        for spelled, value in self.facts.items():
            term = term_of(fact_name(spelled))
            assert term is not None
            fault = value_fault(term.kind, plain(value))
            if fault:
                raise ValueError(f"{spelled}: {fault}")
        return self


class _File(Table):
    format: Literal[1]
    id: Id
    title: Prose
    title_in_log: Prose = ""
    severity: Severity
    severity_when_reached: Severity | None = None
    aliases: tuple[Id, ...] = ()
    explains: tuple[Prose, ...] = ()
    checked: date
    status: Literal["preview", "stable", "withdrawn"]
    since: VersionText
    rank: StrictInt = 50
    silent: Literal["seen", "reported"] | None = None
    gives_way: bool = False
    without_gpu: bool = False
    harmless: bool = False
    where: tuple[Name, ...] = ()
    what: Prose
    why: Prose
    known_problems: Prose = ""
    reference: Annotated[tuple[_Reference, ...], Field(min_length=1)]
    when: tuple[Condition, ...] = ()
    only_on: tuple[Place, ...] = ()
    unless: tuple[Condition, ...] = ()
    reached: tuple[Condition, ...] = ()
    log: tuple[Log, ...] = ()
    remedy: tuple[_Remedy, ...] = ()
    case: Annotated[tuple[Case, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _whole(self) -> _File:
        kinds = {question.fact.kind for question in _questions(*self.when, *self.reached) if question.fact.each}
        if len(kinds) > 1:
            raise ValueError(f"for_each over several kinds: {', '.join(sorted(kinds))}; one at most")
        if self.reached and self.severity_when_reached is None:
            raise ValueError("[[reached]] without severity_when_reached")
        if not self.when and not self.log:
            raise ValueError("neither [[when]] nor [[log]]: nothing would ever find it")
        expected = {case.expect for case in self.case}
        if not {"finds", "clears"} <= expected:
            raise ValueError("at least one case that finds it and one that clears it")
        remedies = [remedy.id for remedy in self.remedy]
        for offered in (offer for case in self.case for offer in case.offers):
            if offered not in remedies:
                raise ValueError(f"a case offers {offered!r}, which is no remedy of this recipe")
        if len(set(remedies)) != len(remedies):
            raise ValueError("two remedies with one id")
        return self


def _questions(*conditions: _Any | _Question) -> Iterator[_Question]:
    for condition in conditions:
        yield from condition.any if isinstance(condition, _Any) else (condition,)


def check(table: dict[str, Any], *, folder: str, origin: str) -> None:
    """Validates one recipe's TOML table.

    Raises BrokenRecipe with every fault of the file.
    """
    try:
        file = _File.model_validate(table)
    except ValidationError as error:
        refuse(error, what="recipe", origin=origin)
    if file.id != folder:
        raise BrokenRecipe(
            f"the recipe's id is {file.id!r}, its folder is {folder!r}",
            about=f"file: {origin}",
            hint="Give both the same name.",
        )


def refuse(error: ValidationError, *, what: str, origin: str) -> NoReturn:
    """Raises BrokenRecipe with every fault that was found."""
    found = _own(error.errors())
    faults = "\n".join(f"  {_path(fault['loc'])}: {_message(fault)}" for fault in found)
    raise BrokenRecipe(
        f"the {what} has {len(found)} fault{'s' if len(found) > 1 else ''}:\n{faults}",
        about=f"file: {origin}",
        hint="`attn-doctor help recipes` describes the format; `attn-doctor recipes show ID` prints a sound one.",
    ) from None


def _own(faults: Sequence[Any]) -> list[Any]:
    """Drops the faults "list too short" that only arise because pydantic does not count an invalid entry."""
    return [
        fault
        for fault in faults
        if fault["type"] != "too_short"
        or not any(
            len(other["loc"]) > len(fault["loc"]) and other["loc"][: len(fault["loc"])] == fault["loc"]
            for other in faults
        )
    ]


def _message(fault: Any) -> str:
    if fault["type"] == "extra_forbidden":
        return "no such key"
    message: str = fault["msg"]
    return message.removeprefix("Value error, ")


def _path(place: tuple[int | str, ...]) -> str:
    text = ""
    for part in place:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part not in ("one", "several", *KINDS):  # pydantic's own tags are no part of the file
            text += f".{part}" if text else part
    return text or "the file"
