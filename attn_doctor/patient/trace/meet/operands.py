"""The operands of an attention call, and the requirements for a kernel without a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple, Union

import torch

from ...libraries import contract
from ...libraries.contract import RAISES, REPAIRED, SILENT, Clause
from ..record import ops

if TYPE_CHECKING:
    from ..record.graph import Node


class Operand:
    """One operand of an attention call, without its tensor."""

    __slots__ = ("dtype", "last_stride", "node", "role", "shape", "stride")

    def __init__(self, role: str, tensor: torch.Tensor, node: Optional[Node]) -> None:
        self.role = role
        self.dtype = tensor.dtype
        self.shape = tuple(int(n) if isinstance(n, int) else str(n) for n in tensor.shape)
        try:
            self.stride: Optional[Tuple[int, ...]] = tuple(int(n) for n in tensor.stride())
        except (RuntimeError, TypeError):
            self.stride = None  # sparse, nested or symbolic
        self.node = node

    @classmethod
    def described(cls, role: str, dtype: torch.dtype, shape: Tuple[Any, ...], node: Optional[Node]) -> Operand:
        """An operand whose tensor no longer exists."""
        operand = cls.__new__(cls)
        operand.role, operand.dtype, operand.shape, operand.stride, operand.node = role, dtype, shape, None, node
        return operand

    @property
    def kind(self) -> str:
        """The dtype's name, as used in contracts."""
        return ops.short(self.dtype)

    @property
    def head_dim(self) -> Union[int, str, None]:
        return self.shape[-1] if self.shape else None


Operands = Dict[str, Operand]


def kind_of(dtype: Optional[torch.dtype]) -> Optional[str]:
    return None if dtype is None else ops.short(dtype)


def wanted_dtype(operands: Operands, autocast: Optional[torch.dtype]) -> Optional[torch.dtype]:
    """The dtype that the operands should have: autocast's, else the half type that most of them have."""
    kind = contract.wanted_kind(operands, kind_of(autocast))
    return None if kind is None else getattr(torch, kind)


def equal_dtypes(operands: Operands, effect: str, message: str = "") -> Clause:
    return contract.equal_dtypes(operands, None, effect, message)


def undeclared(operands: Operands, autocast: Optional[torch.dtype]) -> List[Clause]:
    """Clauses for a kernel without a contract: it accepts unequal operands without an error."""
    if torch._C._current_autograd_node() is not None:
        # A library's own backward functions intentionally keep accumulators in float32 with half-precision inputs.
        return []
    return [contract.equal_dtypes(operands, kind_of(autocast), SILENT)]


__all__ = ["RAISES", "REPAIRED", "SILENT", "Clause", "Operand", "equal_dtypes", "undeclared", "wanted_dtype"]
