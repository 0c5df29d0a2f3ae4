"""Unreadable files: the reason why a file could not be read.

`CannotRead` is raised and caught inside this package only; callers get an `Unreadable`.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from attn_doctor.quick_dataclasses import dataclass


class Reason(str, Enum):
    """Why a file could not be read."""

    MISSING = "no such file"
    NO_PERMISSION = "permission denied"
    NOT_A_FILE = "not a regular file"
    EMPTY = "empty or too short for an ELF header"
    NOT_ELF = "not an ELF file"
    OTHER_KIND = "an ELF file, but no 64-bit little-endian shared library"
    OTHER_MACHINE = "built for another processor"
    DAMAGED = "truncated or malformed"
    FAILED = "reading failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A file that could not be read."""

    path: Path
    reason: Reason
    detail: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.path), self.reason.value, self.detail) if part)


class CannotRead(Exception):
    """Reading stopped; never leaves this package."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason = reason
        self.detail = detail

    @classmethod
    def damaged(cls, detail: str) -> CannotRead:
        """For a file that contradicts itself or ends too early."""
        return cls(Reason.DAMAGED, detail)

    def about(self, path: Path) -> Unreadable:
        """The Unreadable for callers."""
        return Unreadable(path=path, reason=self.reason, detail=self.detail)
