"""The calls that each kernel excludes by its own contract, with its own message if it has one: no failure.

The contracts are those of ../libraries, evaluated on descriptions of cells. Accesses no GPU and needs no torch.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

from ..libraries import LIBRARIES, contract
from ..libraries.contract import Call, Clause, Described, no_such_mask
from ..libraries.sdpa import not_for_its_arguments
from .cells import Cell, Place

Reason = Optional[str]

OWN_WORDS = tuple(words for library in LIBRARIES for words in library.refusals)
"""Messages with which a kernel reports at the call that it does not support it."""

_BATCH, _HEADS, _LENGTH = 2, 8, 512
_MASKS = {"bool-mask": "bool", "fp32-mask": "float32"}


def described(cell: Cell, place: Place) -> Call:
    """A cell as a call, with operands (batch, length, heads, head_dim) that are only descriptions."""
    kv_heads = _HEADS // 4 if cell.form == "gqa" else _HEADS
    operands: Dict[str, Any] = {"q": Described(cell.dtype, (_BATCH, _LENGTH, _HEADS, cell.head_dim))}
    for role in "kv":
        operands[role] = Described(cell.dtype, (_BATCH, _LENGTH, kv_heads, cell.head_dim))
    if cell.form.endswith("-mask"):
        operands["mask"] = Described(_MASKS.get(cell.form, cell.dtype), (1, 1, _LENGTH, _LENGTH))
    options: Dict[str, Any] = {
        "described": True,
        "window": cell.form == "window",
        "softcap": cell.form == "softcap",
        "grouped": cell.form == "gqa",
        "scales": cell.dtype.startswith("float8"),
    }
    versions = {**place.versions, "torch": place.torch_version}
    return Call(operands, place.capability, versions, cell.direction == "train", options)


def by(clauses: Callable[[Call], List[Clause]]) -> Callable[[Cell, Place], Reason]:
    """Evaluates a library's contract: why a cell is not offered, or None."""

    def asked(cell: Cell, place: Place) -> Reason:
        return no_such_mask(cell) or contract.refused(clauses(described(cell, place)))

    return asked


def own(cell: Cell, place: Place) -> Reason:
    """For a function with the arguments of scaled_dot_product_attention: always offered, since only the function itself
    can refuse.
    """
    return not_for_its_arguments(cell) or no_such_mask(cell)


def own_words(message: str) -> Optional[str]:
    """The part of a kernel's message that reports an unsupported call, or None."""
    for words in OWN_WORDS:
        _, found, rest = message.partition(words)
        if found:
            return words + (rest.splitlines() or [""])[0]
    return None
