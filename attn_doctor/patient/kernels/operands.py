"""An attention call without values: the shapes, strides and dtypes of its operands, and its flags. Needs no torch."""

from __future__ import annotations

import dataclasses
from typing import Optional, Tuple

from ..libraries.contract import Described


@dataclasses.dataclass(frozen=True)
class Shapes:
    """One attention call without values; operands are (batch, heads, length, head_dim)."""

    q: Described
    k: Described
    v: Described
    mask: Optional[Described] = None
    causal: bool = False
    gqa: bool = False
    window: Optional[int] = None
    """Number of keys that a query sees, including its own position."""
    softcap: Optional[float] = None
    documents: Optional[Tuple[int, ...]] = None
    """Lengths of the sequences packed along the length (batch is 1), each causal."""
    scale: Optional[float] = None
    """None: 1 / sqrt(head_dim)."""
    one_storage: bool = False
    """q, k and v are slices of one tensor."""

    @property
    def packed(self) -> int:
        """Number of tokens that belong to a packed sequence, or all."""
        return sum(self.documents) if self.documents is not None else int(self.q.shape[2])
