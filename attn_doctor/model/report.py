"""What a command hands to report/: the diagnosis with everything it rests on."""

from __future__ import annotations

from dataclasses import dataclass, field

from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Diagnosis


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """Which interpreter was examined."""

    python: str
    version: str
    environment: str
    """venv, conda, uv or system"""
    because: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One examination."""

    command: str
    doctor_version: str
    created: str
    """UTC, ISO 8601 to the second."""
    examined: Examined
    quick: bool
    assumed: tuple[str, ...]
    """Names of the facts that --assume and --gpu put in place."""
    diagnosis: Diagnosis
    exit_status: int
    facts: FactSet = field(repr=False)
