"""Sizes in words."""

from __future__ import annotations


def size_words(count: int) -> str:
    """`3.1 MiB` for a number of bytes."""
    if count < 2**20:
        return f"{count / 2**10:.0f} KiB"
    return f"{count / 2**20:.1f} MiB" if count < 2**30 else f"{count / 2**30:.1f} GiB"
