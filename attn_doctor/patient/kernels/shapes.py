"""The operands of a trial as descriptions: shapes, strides, mask and flags. Does not need torch.

The one place that turns a cell into shapes: problems.py makes tensors of them, and contracts judge them.
"""

from __future__ import annotations

import dataclasses
from typing import List, Optional, Tuple

from ..libraries.contract import Described, no_such_mask
from . import recorded, situations
from .cells import Cell, Place
from .operands import Shapes

WINDOW = 128
SOFTCAP = 20.0
_SHARES = (0.2, 0.5, 0.3)  # of the length: sequences packed one after the other
_MASKS = {"bool-mask": "bool", "fp32-mask": "float32"}

Sizes = Tuple[int, int, int]
SMALL: Sizes = (2, 8, 512)
"""(batch, heads, length) for comparing results with the reference."""


def shapes_of(cell: Cell, sizes: Sizes = SMALL) -> Shapes:
    """The call that a cell describes; `sizes` gives what its situation leaves open."""
    situation = situations.named(cell.situation)
    if situation.recorded:
        return recorded.shapes_of(situation.recorded)
    batch, heads, length = sizes
    if cell.form == "varlen":
        batch, length = 1, batch * length
    heads = situation.heads or heads
    kv_heads = max(1, heads // 4) if cell.form == "gqa" else heads
    q_length = situation.q_length or length
    kv_length = situation.kv_length or length
    batch = 1 if situation.judged_rows else batch
    shapes: List[Tuple[int, ...]] = [
        (batch, heads, q_length, cell.head_dim),
        (batch, kv_heads, kv_length, cell.head_dim),
        (batch, kv_heads, kv_length, cell.head_dim // situation.v_share),
    ]
    q, k, v = (Described(cell.dtype, shape, _strides(situation.layout, n, shapes)) for n, shape in enumerate(shapes))
    mask = None
    if cell.form.endswith("-mask"):
        mask = Described(_MASKS.get(cell.form, cell.dtype), (1, 1, q_length, kv_length))
    if situation.sink:
        assert mask is not None
        k, v = (dataclasses.replace(one, shape=_one_more(one.shape)) for one in (k, v))
        mask = dataclasses.replace(mask, shape=(1, heads, q_length, kv_length + 1))
    return Shapes(
        q=q,
        k=k,
        v=v,
        mask=mask,
        causal=cell.form in ("causal", "gqa"),
        gqa=cell.form == "gqa",
        window=WINDOW if cell.form == "window" else None,
        softcap=SOFTCAP if cell.form == "softcap" else None,
        documents=_documents(situation.documents, length) if cell.form == "varlen" else None,
        one_storage=situation.layout == "fused",
    )


def _one_more(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    return (*shape[:2], shape[2] + 1, shape[3])


def _documents(kind: str, length: int) -> Tuple[int, ...]:
    if kind == "tail":
        length = length * 3 // 4 - 5
    parts = [int(length * part) for part in _SHARES[:-1]]
    lengths = (*parts, length - sum(parts))
    return (0, lengths[0], 0, lengths[1] - 1, 1, lengths[2], 0) if kind == "empty" else lengths


def _strides(layout: str, number: int, shapes: List[Tuple[int, ...]]) -> Optional[Tuple[int, ...]]:
    """Strides of operand `number` (q, k, v); None: contiguous."""
    _, heads, length, dim = shapes[number]
    if layout == "fused":  # (batch, length, heads of q, k and v, head_dim) in memory
        row = sum(one[1] for one in shapes) * dim
        return (length * row, dim, row, 1)
    if layout == "transposed":
        return (length * heads * dim, dim, heads * dim, 1)
    if layout == "expanded" and number > 0:
        return (length * dim, 0, dim, 1)
    if layout == "columns" and number == 1:
        return (heads * length * dim, length * dim, 1, length)
    return None


def no_such_call(cell: Cell, place: Place) -> Optional[str]:
    """Why no kernel can be asked for a cell here, or None."""
    situation = situations.named(cell.situation)
    if place.capability is None and (situation.calls == "graph" or situation.judged_rows):
        return "this is for GPUs"
    return no_such_mask(cell)
