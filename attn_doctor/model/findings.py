"""Findings: the results of a diagnosis, as records. report/ turns them into text."""

from __future__ import annotations

from enum import Enum

from attn_doctor.model.facts import Fact
from attn_doctor.model.outcomes import Certainty
from attn_doctor.model.remedies import ProposedAction
from attn_doctor.quick_dataclasses import dataclass


class Verdict(Enum):
    """Result of evaluating a recipe's conditions, in Kleene's three-valued logic."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"


class Severity(str, Enum):
    """Severity of a finding, worst first."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """Position in the order of severity; 0 is the worst."""
        return list(Severity).index(self)


class Safety(str, Enum):
    """What applying a remedy may change; the terms are those of the linter ruff."""

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
    """One way to remove the cause of a finding."""

    id: str
    title: str
    safety: Safety
    why_this_safety: str = ""
    actions: tuple[ProposedAction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """A known finding that was accepted in a file; it does not fail the command until `expires`."""

    id: str
    reason: str
    expires: str
    """ISO date; empty when it never expires."""
    subject: str = ""
    partition: str = ""
    """Pattern of the partition whose nodes it is accepted on; empty for every node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A finding that was raised to an error in a file, whatever severity its recipe gives."""

    id: str
    reason: str
    subject: str = ""
    """Pattern of the subject, `*` for any characters; empty for every subject."""
    partition: str = ""
    """Pattern of the partition on whose nodes it gates; empty for every node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem found on this target."""

    id: str
    severity: Severity
    title: str
    what: str = ""
    why: str = ""
    certainty: str = Certainty.INFERRED
    """`seen`: the problem itself was observed; `inferred`: facts such as versions imply it."""
    library: str = ""
    subjects: tuple[str, ...] = ()
    """The things it concerns, when a node has several: `gpu 0`, `extension xformers._C`."""
    aliases: tuple[str, ...] = ()
    locations: tuple[Location, ...] = ()
    evidence: tuple[Fact, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    symptoms: tuple[Finding, ...] = ()
    """Other findings that this one causes."""
    references: tuple[str, ...] = ()
    known_problems: str = ""
    status: str = "stable"
    rank: int = 50
    origin: str = ""
    """The recipe's file and SHA-256."""
    accepted: Acceptance | None = None
    family: bool = False
    """It is no cause but a family of them: its remedies are checks that split it."""
    by_words: bool = False
    """No pattern of it stands in the log: all its words together are those of this trouble's cases."""
    possible: bool = False
    """One of those that a log may be of, and none of which is stated: its checks, if it has any, decide."""

    def is_a_look(self, remedy: Remedy) -> bool:
        """Whether a step only looks: a check of a family that splits its causes, and no step that facts chose."""
        return self.family and remedy.safety is Safety.DISPLAY_ONLY

    @property
    def rests_on_assumption(self) -> bool:
        """True when some of its evidence was assumed (--gpu, --assume) and not observed here."""
        return any(fact.rests_on_assumption for fact in self.evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQuestion:
    """A recipe that could not be decided, and the unknown facts it depends on."""

    recipe: str
    title: str
    undecided: tuple[Fact, ...]
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result of evaluating a set of recipes on a set of facts."""

    findings: tuple[Finding, ...] = ()
    """The most severe and most fundamental first."""
    open_questions: tuple[OpenQuestion, ...] = ()
    cleared: tuple[str, ...] = ()
    """Ids of the recipes whose conditions do not hold."""
    not_asked: tuple[str, ...] = ()
    """Ids of the recipes that depend on facts which an option switched off."""
