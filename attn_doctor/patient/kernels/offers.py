"""The calls that each kernel excludes by its own contract, with its own message if it has one: no failure.

The contracts are those of ../libraries, evaluated on descriptions of cells. Accesses no GPU and needs no torch.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

from ..libraries import LIBRARIES, contract
from ..libraries.contract import Call, Clause, Described
from ..libraries.sdpa import not_for_its_arguments
from .cells import Cell, Place
from .shapes import no_such_call, shapes_of

Reason = Optional[str]

OWN_WORDS = tuple(words for library in LIBRARIES for words in library.refusals)
"""Messages with which a kernel reports at the call that it does not support it."""


def described(cell: Cell, place: Place) -> Call:
    """A cell as a call, with operands (batch, length, heads, head_dim) that are only descriptions."""
    shapes = shapes_of(cell)
    operands: Dict[str, Any] = {role: _by_length(getattr(shapes, role)) for role in "qkv"}
    if shapes.mask is not None:
        operands["mask"] = shapes.mask
    options: Dict[str, Any] = {
        "described": True,
        "window": shapes.window is not None,
        "softcap": shapes.softcap is not None,
        "packed": shapes.documents is not None,
        "grouped": shapes.gqa,
        "scales": cell.dtype.startswith("float8"),
    }
    versions = {**place.versions, "torch": place.torch_version}
    return Call(operands, place.capability, versions, cell.direction == "train", options)


def _by_length(one: Described) -> Described:
    """(batch, heads, length, head_dim) as (batch, length, heads, head_dim)."""

    def turned(sizes: Tuple[int, ...]) -> Tuple[int, ...]:
        return (sizes[0], sizes[2], sizes[1], sizes[3])

    return Described(one.kind, turned(one.shape), None if one.stride is None else turned(one.stride))


def by(clauses: Callable[[Call], List[Clause]]) -> Callable[[Cell, Place], Reason]:
    """Evaluates a library's contract: why a cell is not offered, or None."""

    def asked(cell: Cell, place: Place) -> Reason:
        return no_such_call(cell, place) or contract.refused(clauses(described(cell, place)))

    return asked


def own(cell: Cell, place: Place) -> Reason:
    """For a function with the arguments of scaled_dot_product_attention: always offered, since only the function itself
    can refuse.
    """
    return not_for_its_arguments(cell) or no_such_call(cell, place)


def own_words(message: str) -> Optional[str]:
    """The part of a kernel's message that reports an unsupported call, or None."""
    for words in OWN_WORDS:
        _, found, rest = message.partition(words)
        if found:
            return words + (rest.splitlines() or [""])[0]
    return None
