"""Which token reaches which in a small model, found by changing tokens (`trace --semantics`)."""

from __future__ import annotations

from attn_doctor.model.trace import Place
from attn_doctor.quick_dataclasses import dataclass

HOLDS, BROKEN, REFUSED = "holds", "broken", "refused"
NOT_APPLICABLE, COULD_NOT_LOOK = "not applicable", "could not look"


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A module where a fault begins: its inputs were right, its output was not."""

    module: str
    """Path in the model."""
    type: str
    layer: int | None
    at: Place | None
    """The line of its own forward."""
    inside: Place | None
    """The innermost line of the model or its library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One comparison of outputs."""

    name: str
    form: str
    """How packed documents were told apart; empty for other checks."""
    outcome: str
    words: str
    whose: str
    """`model` or `call`: who breaks the library's contract; empty when nothing is broken."""
    culprits: tuple[Culprit, ...]
    mask: str
    """The mask that the first culprit was given, in words; empty when it takes none."""
    mask_place: Place | None
    safe: tuple[str, ...]
    """Forms that kept packed documents apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Semantics:
    """All checks of one model."""

    subject: str
    implementation: str
    cut: str
    """What was made smaller, in words."""
    versions: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]
    error_kind: str
    error: str
    seconds: float | None

    @property
    def words(self) -> str:
        """The model, its attention and its library's version."""
        with_attention = f", {self.implementation} attention" if self.implementation else ""
        version = dict(self.versions).get("transformers")
        of = f" of transformers {version}" if version and self.implementation else ""
        return f"{self.subject}{of}{with_attention}"

    @property
    def seen(self) -> bool:
        """True when at least one check gave an answer."""
        return any(one.outcome in (HOLDS, BROKEN) for one in self.checks)
