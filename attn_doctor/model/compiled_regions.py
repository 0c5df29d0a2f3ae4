"""Attention regions of a model, eager against torch.compile (`trace --compile`)."""

from __future__ import annotations

from attn_doctor.model.trace import Place
from attn_doctor.quick_dataclasses import dataclass

ALIKE, WRONG, RAISES, COULD_NOT_LOOK = "alike", "wrong", "raises", "could not look"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """One way in which a region was called."""

    name: str
    outcome: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One attention module."""

    module: str
    type: str
    layer: int | None
    at: Place | None
    same: tuple[str, ...]
    """Modules of its class that are called alike, and were not compiled again."""
    outcome: str
    layouts: tuple[Layout, ...]
    stage: str
    """The first backend of torch.compile that is wrong; empty when none is."""
    fused: bool | None
    """It is right without Inductor's pattern matcher."""
    script: str
    """A program of a few lines that shows the fault; empty when none was found."""
    shown: float | None
    """The relative difference that it printed; None when it showed none."""
    graphs: int
    breaks: tuple[tuple[str, Place | None], ...]
    recompilations: tuple[str, ...]

    @property
    def title(self) -> str:
        """Its path and class."""
        return f"{self.module or 'the whole'} ({self.type})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRegions:
    """All regions of one model."""

    subject: str
    implementation: str
    cut: str
    versions: tuple[tuple[str, str], ...]
    regions: tuple[Region, ...]
    error_kind: str
    error: str
    seconds: float | None

    @property
    def words(self) -> str:
        """The model, its attention and torch's version."""
        with_attention = f", {self.implementation} attention" if self.implementation else ""
        return f"{self.subject}{with_attention}, torch {dict(self.versions).get('torch', '?')}"

    @property
    def seen(self) -> bool:
        """True when at least one region was compared."""
        return any(one.outcome != COULD_NOT_LOOK for one in self.regions)
