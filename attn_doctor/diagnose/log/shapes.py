"""Reads from the sizes in a message how two tensors differ."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from attn_doctor.quick_patterns import when_used

_RECOMPUTED = when_used(
    r"saved metadata:? ?\{'shape': (?:torch\.Size\()?\[(?P<saved>[\d, ]{1,60})\][^\n]{0,200}\s+"
    r"recomputed metadata:? ?\{'shape': (?:torch\.Size\()?\[(?P<again>[\d, ]{1,60})\]"
)
#: (batch, length, heads, head dimension), as attention lays out a projection.
_LAID_OUT = when_used(r"shape '\[(?P<shape>-?\d+, \d+, \d+, \d+)\]' is invalid for input of size (?P<size>\d+)")


_MASK = when_used(
    r"(?:[Tt]arget sizes: \[|should be of size \()\d+, \d+, (?P<queries>\d+), (?P<keys>\d+)[\])]"
    r"\W{1,4}(?:Tensor sizes: \[|but is torch\.Size\(\[)\d+, 1, (?P<rows>\d+), (?P<columns>\d+)\]"
)


def is_keys_twice(text: str) -> bool:
    """True where a square mask meets twice as many keys as there are queries: a cache took the same keys twice."""
    found = _MASK.search(text)
    if found is None:
        return False
    queries, keys, rows, columns = (int(found[name]) for name in ("queries", "keys", "rows", "columns"))
    return queries == rows == columns > 1 and keys == 2 * queries


def heads_laid_out(text: str) -> str | None:
    """`grouped` where a tensor has an even part of the heads that it is laid out with, as keys of grouped heads;
    `head_dim` where it has a part that is none, as where a model names its head dimension by itself.
    """
    found = _LAID_OUT.search(text)
    if found is None:
        return None
    whole, size = prod(map(int, found["shape"].split(", "))), int(found["size"])
    if not 0 < size < whole:
        return "head_dim" if whole > 0 and size > whole and size % whole else None
    return "head_dim" if whole % size else "grouped"


def is_longer_again(text: str) -> bool:
    """True where a checkpointed layer got a tensor of more rows the second time: a cache took its keys twice."""
    return any(after > before for before, after in _sizes_again(text))


def is_part_again(text: str) -> bool:
    """True where a checkpointed layer got an even part of a length the second time: its sequence was split again."""
    changed = {(before, after) for before, after in _sizes_again(text) if before != after}
    return bool(changed) and all(after > 1 and before % after == 0 for before, after in changed)


def _sizes_again(text: str) -> Iterator[tuple[int, int]]:
    """The sizes that a checkpointed layer's tensors had the first and the second time, of those of as many sizes."""
    for shapes in _RECOMPUTED.finditer(text):
        saved, again = ([int(size) for size in shapes[name].split(",")] for name in ("saved", "again"))
        if len(saved) == len(again) > 1:
            yield from zip(saved, again, strict=True)
