"""Recipes after reading and checking: immutable values, independent of the file format and of pydantic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias

from attn_doctor.model.facts import FactName, Scalar, Value
from attn_doctor.model.findings import Safety, Severity
from attn_doctor.model.remedies import Action
from attn_doctor.quick_dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The fact is known and not empty; or, when negated, absent."""

    fact: FactName
    present: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """introduced <= version < fixed. Without `fixed`, versions newer than `looked_at` are undecided."""

    fact: FactName
    introduced: str | None
    fixed: str | None
    looked_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """The value is one of these."""

    fact: FactName
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Below:
    """The value is less than the bound."""

    fact: FactName
    bound: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class AtLeast:
    """The value is the bound or more."""

    fact: FactName
    bound: Scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """The pattern is found in the text."""

    fact: FactName
    pattern: str


Question: TypeAlias = Present | Affected | OneOf | Below | AtLeast | Matches


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """At least one of the conditions holds."""

    questions: tuple[Question, ...]


Condition: TypeAlias = Question | AnyOf


class Changes(Enum):
    """What a remedy changes in a program, where only its authors would do it in this way."""

    CODE = "code"
    ADDITION = "addition"
    """Code as well; only where it is that of what was added to a program, whose reader updates that first."""
    PRECISION = "precision"
    """The dtype of a model or of a part of it: a program often has a switch for it."""
    NO_BF16 = "no-bf16"
    """Likewise, where bf16 is what does not work: a switch to it is none."""
    NO_HALF = "no-half"
    """Likewise, where neither half precision works."""
    ATTENTION = "attention"
    """Which attention is called: likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeRemedy:
    """A remedy as written; its texts may contain placeholders `{fact.name}`."""

    id: str
    title: str
    safety: Safety
    why_this_safety: str
    actions: tuple[Action, ...]
    when: tuple[Condition, ...]
    expires: str = ""
    """ISO date after which it has to be reviewed; empty for never."""
    fallback: bool = False
    """It goes around the trouble instead of mending it: facts that fit it do not bring it forward."""
    only_with_facts: bool = False
    """Offered only where facts fulfil its conditions, and not where they are unknown."""
    unless: tuple[Condition, ...] = ()
    """Not offered where one of these holds; an unknown fact leaves it as it is."""
    safe_when: tuple[Condition, ...] = ()
    """Where these hold its meaning is the same, and it is safe, whatever `safety` says."""
    why_safe: str = ""
    """The reason of that."""
    changes: Changes | None = None
    """In the log of a program that its reader only uses, the program's own way comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPattern:
    """How the problem appears in a log; each pattern is searched for in one unit of the log (diagnose/log/)."""

    pattern: str
    unless: str | None = None
    """Excludes a match when this pattern is found in the same unit."""
    nearby: str | None = None
    """Requires that this pattern is found close by in the same file."""
    unless_nearby: str | None = None
    raised_by: tuple[str, ...] = ()
    """Import names, `script` for a person's own file, `package` for any other: no match where the innermost frame is of
    none of them; without frames it matches. Empty: of any."""
    of_learning: str | None = None
    """Many programs say it: told only where the log is of one that trains models, runs them or serves them. `shown`:
    its lines show that; `possible`: they do, or are too few to show it."""
    kinds: tuple[str, ...] = ()
    """Kinds of unit to search; all when empty."""
    confirms: bool = False
    """The text alone proves the problem; facts cannot refute it."""
    severity: Severity | None = None
    outranks: tuple[str, ...] = ()
    """Recipes that are dropped when they match the same unit."""
    wrapper: bool = False
    """An outer line, used only when nothing else explains the log."""
    only_with_facts: bool = False
    """Not reported while a fact of its conditions is missing, because the text alone is ambiguous."""
    when: tuple[Condition, ...] | None = None
    """Conditions under which this text means this problem; None: those of the recipe."""
    extracts: tuple[tuple[str, FactName], ...] = ()
    """Named groups of the pattern, and the facts that they set."""
    reasons: str | None = None
    """Each match in the unit is one reason listed in the message: the group `reason`, and its owner (`of`)."""
    reasons_nearby: bool = False
    """The reasons are in the lines around the unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How to recognize the family of a message without a recipe: exception class, owner, and topic."""

    about: str
    owners: tuple[str, ...] = ()
    """Import names, one of which the message must contain; empty for any owner."""
    exceptions: tuple[str, ...] = ()
    """Classes without their modules; a message that shows none passes."""
    ours: bool = True
    """False: not a problem of the attention stack; the note only explains it and names where to look."""
    certain: bool = False
    """Its messages say by themselves that they are of it, as Python's own do: it is stated unless the log's words are
    nearer to one cause than to none, and outside of the attention stack in logs of any program too."""


def plain(value: Any) -> Value:
    """Converts a TOML value to a fact's value: lists become tuples."""
    return tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One of the recipe's own tests."""

    facts: tuple[tuple[FactName, Value], ...]
    unknown: tuple[FactName, ...]
    log: str | None
    expect: str
    severity: Severity | None
    offers: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    """The reasons that the log has to contain."""

    @classmethod
    def of_table(cls, table: Mapping[str, Any]) -> Case:
        """From its TOML table, which is taken as sound (build.py)."""
        severity = table.get("severity")
        return cls(
            facts=tuple((FactName.parse(name), plain(value)) for name, value in table.get("facts", {}).items()),
            unknown=tuple(FactName.parse(name) for name in table.get("unknown", ())),
            log=table.get("log"),
            expect=table["expect"],
            severity=Severity(severity) if severity else None,
            offers=tuple(table.get("offers", ())),
            reasons=tuple(table.get("reasons", ())),
        )


#: The rank from which on families know a message by the grammar of its sentence, or by a word of its language.
_OF_A_GRAMMAR = 85


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One problem: how it is recognized, why it happens, how it is fixed."""

    id: str
    library: str
    title: str
    title_in_log: str = ""
    """Title for a log that lacks some facts of the title; empty: the title without them."""
    severity: Severity
    severity_when_reached: Severity | None
    what: str
    why: str
    known_problems: str
    aliases: tuple[str, ...]
    explains: tuple[str, ...]
    checked: str
    status: str
    since: str
    rank: int
    silent: str | None
    """A silent error, with nothing raised: "seen" when a reproduction of ours showed it, "reported" when a source says
    so; None for other recipes."""
    gives_way: bool
    """It reports a failure without its cause; a recipe that recognizes the failure's message replaces it."""
    without_gpu: bool
    """Its text only shows that no GPU or driver is present, which is no problem on a node without GPUs."""
    harmless: bool
    """Nothing has to be done about its notice, which comes after everything else that a log says."""
    where: tuple[FactName, ...]
    for_each: str | None
    """The plural kind that is evaluated one subject at a time."""
    when: tuple[Condition, ...]
    unless: tuple[Condition, ...] = ()
    """Where one of these holds it is impossible, whatever a log's text says; an unknown fact leaves it possible."""
    reached: tuple[Condition, ...]
    references: tuple[tuple[str, str], ...]
    """(kind, URL)"""
    logs: tuple[LogPattern, ...]
    remedies: Sequence[RecipeRemedy]
    """Made when they are first asked for (later.py), as the cases."""
    case_tables: Sequence[Mapping[str, Any]] = field(repr=False, compare=False)
    """As they were read: a thousand cases on the shelf, which no examination needs."""
    origin: str
    """File it was read from, for people."""
    file: Path
    sha256: str
    family: Family | None = None
    """Set for a family of messages, whose remedies are checks that distinguish its causes."""

    @property
    def says_where(self) -> bool:
        """It only says what a log is about: whatever says more replaces it."""
        return bool(self.logs) and all(pattern.wrapper for pattern in self.logs)

    @property
    def is_of_a_grammar(self) -> bool:
        """A family that knows a message by the grammar of its sentence: whatever knows its words says more."""
        return self.family is not None and self.rank >= _OF_A_GRAMMAR

    @property
    def is_certain(self) -> bool:
        """A family whose messages say by themselves that they are of it."""
        return self.family is not None and self.family.certain

    @property
    def has_words_of_its_own(self) -> bool:
        """It says more than where a trouble is, and knows messages by more than their grammar."""
        return not (self.says_where or self.is_of_a_grammar)

    @property
    def cases(self) -> tuple[Case, ...]:
        """The recipe's own tests."""
        return tuple(map(Case.of_table, self.case_tables))

    def asks(self) -> tuple[FactName, ...]:
        """Every fact on which its conditions depend."""
        return tuple(
            dict.fromkeys(
                question.fact
                for condition in (*self.when, *self.reached)
                for question in (condition.questions if isinstance(condition, AnyOf) else (condition,))
            )
        )
