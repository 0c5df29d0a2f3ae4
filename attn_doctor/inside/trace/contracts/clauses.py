"""What contracts are made of: the operands of an attention call, and a sentence about them that was kept or not."""

from __future__ import annotations

import re
from typing import Any, Dict, Optional, Tuple

import torch

from .. import ops

RAISES, SILENT, REPAIRED = "raises", "silent", "repaired"


class Operand:
    """One operand of an attention call, without its tensor."""

    __slots__ = ("dtype", "last_stride", "node", "role", "shape", "stride")

    def __init__(self, role: str, tensor: torch.Tensor, node: Any) -> None:
        self.role = role
        self.dtype = tensor.dtype
        self.shape = tuple(int(n) if isinstance(n, int) else str(n) for n in tensor.shape)
        try:
            self.stride: Optional[Tuple[int, ...]] = tuple(int(n) for n in tensor.stride())
        except (RuntimeError, TypeError):
            self.stride = None  # sparse, nested or symbolic
        self.node = node

    @classmethod
    def described(cls, role: str, dtype: torch.dtype, shape: Tuple[Any, ...], node: Any) -> Operand:
        """One whose tensor is gone."""
        operand = cls.__new__(cls)
        operand.role, operand.dtype, operand.shape, operand.stride, operand.node = role, dtype, shape, None, node
        return operand

    @property
    def head_dim(self) -> Any:
        return self.shape[-1] if self.shape else None


class Clause:
    """One sentence of a contract, and whether it was kept."""

    __slots__ = ("blamed", "effect", "kept", "message", "words")

    def __init__(
        self, words: str, kept: bool, effect: str = RAISES, message: str = "", blamed: Tuple[str, ...] = ()
    ) -> None:
        self.words = words
        self.kept = kept
        self.effect = effect
        self.message = message
        self.blamed = blamed

    def as_json(self) -> Dict[str, Any]:
        return {
            "words": self.words,
            "kept": self.kept,
            "effect": None if self.kept else self.effect,
            "message": None if self.kept else (self.message or None),
            "operands": list(self.blamed),
        }


Operands = Dict[str, Operand]


def wanted_dtype(operands: Operands, autocast: Optional[torch.dtype]) -> Optional[torch.dtype]:
    """The dtype that the operands were meant to have: autocast's, else the half type most of them have."""
    if autocast is not None:
        return autocast
    halves = [operands[r].dtype for r in ("v", "k", "q") if r in operands and operands[r].dtype in ops.HALVES]
    if not halves:
        return None
    return max(halves, key=halves.count)


def odd(operands: Operands, autocast: Optional[torch.dtype], roles: Tuple[str, ...] = ("q", "k", "v")) -> Any:
    """The operands that break equality: those that are not what they were meant to be."""
    present = [r for r in roles if r in operands]
    if len({operands[r].dtype for r in present}) <= 1:
        return ()
    wanted = wanted_dtype(operands, autocast)
    if wanted is None or all(operands[r].dtype != wanted for r in present):
        wanted = operands[present[-1]].dtype
    return tuple(r for r in present if operands[r].dtype != wanted)


def equal_dtypes(operands: Operands, autocast: Optional[torch.dtype], effect: str, message: str = "") -> Clause:
    blamed = odd(operands, autocast)
    return Clause("q, k and v have the same dtype", not blamed, effect, message, blamed)


def release_of(text: str) -> Tuple[int, ...]:
    """(2, 13, 0) of "2.13.0+cpu"."""
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0])[:3])
