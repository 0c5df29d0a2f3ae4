"""Words for places that have little room."""

from __future__ import annotations

from attn_doctor.machine.printable import one_line

LARGEST = 4096
"""Bytes that Kubernetes keeps of a container's termination message."""


def shortened(words: str, most: int) -> str:
    """At most so many characters, on one line."""
    words = one_line(words)
    return words if len(words) <= most else words[: most - 1] + "…"
