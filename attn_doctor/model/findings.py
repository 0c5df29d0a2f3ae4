"""Findings: what a diagnosis says. Structure first; the words for people are made of it in report/."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from attn_doctor.model.facts import Fact
from attn_doctor.model.remedies import ProposedAction


class Verdict(Enum):
    """The answer to a recipe's question; Kleene's three values."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"


class Severity(str, Enum):
    """How bad, worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Severity).index(self)


class Safety(str, Enum):
    """What applying a remedy may change; ruff's words."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY_ONLY = "display-only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place in a file. `line` is 1-based, None when the whole file is meant."""

    file: str
    line: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One way to cure a finding."""

    id: str
    title: str
    safety: Safety
    why_this_safety: str = ""
    actions: tuple[ProposedAction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """Somebody knows this finding and lives with it until `expires`."""

    id: str
    reason: str
    expires: str
    """ISO date, empty when it never expires."""
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Somebody wants this finding to be an error, whatever the recipe calls it."""

    id: str
    reason: str
    subject: str = ""
    """With `*` for any letters; empty for every subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One trouble found."""

    id: str
    severity: Severity
    title: str
    what: str = ""
    why: str = ""
    certainty: str = "inferred"
    """`seen`: something showed the trouble itself; `inferred`: facts such as versions imply it."""
    library: str = ""
    subjects: tuple[str, ...] = ()
    """What it was found on, when a node has several: `gpu 0`, `extension xformers._C`."""
    aliases: tuple[str, ...] = ()
    locations: tuple[Location, ...] = ()
    evidence: tuple[Fact, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    symptoms: tuple[Finding, ...] = ()
    """Findings that this one explains."""
    references: tuple[str, ...] = ()
    known_problems: str = ""
    status: str = "stable"
    rank: int = 50
    origin: str = ""
    """The recipe's file and SHA-256."""
    accepted: Acceptance | None = None

    @property
    def rests_on_assumption(self) -> bool:
        """Some of its evidence was assumed (--gpu, --assume) and not seen here."""
        return any(fact.rests_on_assumption for fact in self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """A recipe that could not be decided, and the facts that would decide it."""

    recipe: str
    title: str
    undecided: tuple[Fact, ...]
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Everything a set of recipes says about a set of facts."""

    findings: tuple[Finding, ...] = ()
    """In order of rank: the worst and the most basic first."""
    open_questions: tuple[OpenQuestion, ...] = ()
    cleared: tuple[str, ...] = ()
    """Ids of the recipes that were settled as not holding."""
    not_asked: tuple[str, ...] = ()
    """Ids of the recipes that rest on facts which the person chose not to gather."""
