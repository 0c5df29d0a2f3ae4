"""Words by which answers and reports say how something ended; patient/outcomes.py has the same values.

Each is a string: it equals the string that a file holds, and is written as that.
"""

from __future__ import annotations

from enum import Enum


class _Word(str, Enum):
    """A string with a name."""

    __str__ = str.__str__
    __hash__ = str.__hash__

    def __format__(self, format_spec: str) -> str:
        return str.__format__(self.value, format_spec)


class TraceVerdict(_Word):
    """Of an attention call."""

    RAISES = "raises"
    MIXED = "silently mixed"
    REPAIRED = "promoted then repaired"
    CLEAN = "clean"


#: From worst to harmless.
GRAVITY = tuple(TraceVerdict)
BROKEN = (TraceVerdict.RAISES, TraceVerdict.MIXED)


class Outcome(_Word):
    """Of an import or a sample."""

    IMPORTED = "imported"
    FAILED = "failed"
    TOLD = "told"
    """A child sent a value."""
    CRASHED = "crashed"
    HUNG = "hung"
    UNASKED = "unasked"
    """Nothing was tried, for a reason."""
    RAN = "ran"
    RAISED = "raised"


class Certainty(_Word):
    """Of a finding."""

    SEEN = "seen"
    """The problem itself was observed."""
    INFERRED = "inferred"
    """Facts such as versions imply it."""
