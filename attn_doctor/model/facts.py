"""Facts: what was examined, and the result. A fact has one of three states: known, absent, unknown."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import TypeAlias

from attn_doctor.model import kinds
from attn_doctor.quick_dataclasses import dataclass

Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """The probe found it."""

    value: Value


@dataclass(frozen=True, slots=True)
class Absent:
    """The probe looked and it is not there."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The probe could not look, or was not requested. Never treat this as healthy."""

    reason: str
    asked: bool = True
    """False when an option switched the probe off (`--quick`, `--no-samples`): then it leaves no open question."""


State: TypeAlias = Known | Absent | Unknown


class Origin(str, Enum):
    """How a fact came about: a probe, a computation over other facts, or the option `--assume`."""

    PROBED = "probed"
    DERIVED = "derived"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True, order=True)
class FactName:
    """A fact's full name.

    Spelled `kind.attribute` (`driver.version`), `kind.subject.attribute` (`package.flash-attn.version`) or
    `env.NAME`. A plural kind without a subject (`gpu.compute_capability`) stands for each of its subjects in turn.
    """

    kind: str
    subject: str
    attribute: str

    @classmethod
    @functools.lru_cache(maxsize=4096)  # the same few hundred names, asked for again and again
    def parse(cls, text: str) -> FactName:
        """Parses the spelled form.

        Raises ValueError when the text has no dot or an empty part.
        """
        kind, dot, rest = text.partition(".")
        if not dot or not kind or not rest or rest.endswith(".") or rest.startswith("."):
            raise ValueError(f"not a fact name: {text!r}")
        if kind == "env":
            return cls(kind, rest, "")
        if kind not in kinds.PLURAL:
            return cls(kind, "", rest)
        # Subjects may contain dots themselves (`extension.xformers._C.path`): split at the first and the last dot.
        subject, _, attribute = rest.rpartition(".")
        return cls(kind, subject, attribute)

    def __str__(self) -> str:
        return ".".join(part for part in (self.kind, self.subject, self.attribute) if part)

    @property
    def each(self) -> bool:
        """True for a plural kind without a subject: the name stands for every subject."""
        return self.kind in kinds.PLURAL and not self.subject

    def of(self, subject: str) -> FactName:
        """The same attribute, of the given subject."""
        return FactName(self.kind, subject, self.attribute)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """The result of examining one thing."""

    name: FactName
    state: State
    how: str
    """How the value was obtained, so that a person can repeat it."""
    origin: Origin = Origin.PROBED
    computed_from: tuple[str, ...] = ()
    """Names of the facts from which a derived fact was computed."""
    supposed: bool = False
    """An assumption decided its value, although its origin is not ASSUMED: it was computed from an assumed fact, or
    holds for a GPU named with --gpu."""

    @property
    def rests_on_assumption(self) -> bool:
        """True when this fact, or one it was computed from, was assumed instead of observed."""
        return self.supposed or self.origin is Origin.ASSUMED


class FactSet(Mapping[FactName, Fact]):
    """All facts of one examination; immutable. A name that no probe examined is not in it."""

    __slots__ = ("_facts", "_subjects")

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._facts: dict[FactName, Fact] = {fact.name: fact for fact in facts}
        self._subjects: dict[str, dict[str, None]] | None = None  # by kind; made when first asked for

    def __getitem__(self, name: FactName) -> Fact:
        return self._facts[name]

    def __iter__(self) -> Iterator[FactName]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FactSet) and self._facts == other._facts

    __hash__ = None  # type: ignore[assignment]

    def fact(self, name: FactName | str) -> Fact:
        """The fact of this name; Unknown when no probe examined it."""
        wanted = FactName.parse(name) if isinstance(name, str) else name
        found = self._facts.get(wanted)
        if found is not None:
            return found
        listing = self._facts.get(FactName("listed", "", wanted.kind))
        return Fact(name=wanted, state=self._unlooked(wanted), how=listing.how if listing else "nobody looked")

    def _unlooked(self, name: FactName) -> State:
        # The listing of a plural kind decides its members: a package that is not listed is absent.
        # For a listed member, a missing attribute is absent when one probe finds all attributes at once (Kind.leading),
        # and unknown when that probe could not look or when several probes contribute.
        listing = self._facts.get(FactName("listed", "", name.kind))
        if listing is None:
            option = kinds.kind_of(name.attribute if name.kind == "listed" else name.kind).on_request
            if option:
                return Unknown(f"not asked for ({option})", asked=False)
            return Unknown("not examined")
        if isinstance(listing.state, Unknown):
            return listing.state
        if name.subject and name.subject in self._subjects_of(name.kind):
            leading = kinds.kind_of(name.kind).leading
            if not leading:
                return Unknown("not examined")
            lead = self._facts.get(FactName(name.kind, name.subject, leading))
            if lead is not None and isinstance(lead.state, Unknown):
                return lead.state
        return Absent("not there")

    def value(self, name: FactName | str) -> Value | None:
        """The value when known, else None. For reports; conditions read the state."""
        # Asked for most of all: no Fact is made for what is not in it.
        found = self._facts.get(FactName.parse(name) if isinstance(name, str) else name)
        return found.state.value if found is not None and isinstance(found.state, Known) else None

    def text(self, name: FactName | str) -> str | None:
        """The value as a string when it is known and a string."""
        value = self.value(name)
        return value if isinstance(value, str) else None

    def subjects(self, kind: str) -> tuple[str, ...]:
        """The subjects of a plural kind that have at least one fact, in order of appearance."""
        return tuple(self._subjects_of(kind))

    def _subjects_of(self, kind: str) -> dict[str, None]:
        if self._subjects is None:
            self._subjects = {}
            for name in self._facts:
                if name.subject:
                    self._subjects.setdefault(name.kind, {})[name.subject] = None
        return self._subjects.get(kind, {})

    def with_facts(self, facts: Iterable[Fact]) -> FactSet:
        """A copy in which the given facts replace those of the same name."""
        made = FactSet()
        made._facts = self._facts | {fact.name: fact for fact in facts}
        return made

    def without(self, kind: str) -> FactSet:
        """A copy without the facts of this kind."""
        return FactSet(fact for fact in self._facts.values() if fact.name.kind != kind)
