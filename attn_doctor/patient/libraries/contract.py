"""Parts of contracts: a call, with real or described operands, and the clauses that it must satisfy.

A contract is a function `clauses(call)`: all conditions that a library's function checks, in its order. `trace`
evaluates it on the operands of a real call, `check --kernels` on the description of a trial. Needs no torch.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Protocol, Tuple, TypedDict

from ..dtypes import HALVES

if TYPE_CHECKING:
    from ..kernels.cells import Cell

RAISES, SILENT, REPAIRED = "raises", "silent", "repaired"


class Kept(TypedDict):
    """A sentence of a contract, for JSON."""

    words: str
    kept: bool
    effect: Optional[str]
    message: Optional[str]
    operands: List[str]


class Clause:
    """One condition of a contract, and whether the call satisfies it."""

    __slots__ = ("blamed", "effect", "error", "kept", "message", "reason", "words")

    def __init__(
        self,
        words: str,
        kept: bool,
        effect: str = RAISES,
        message: str = "",
        blamed: Tuple[str, ...] = (),
        error: str = "RuntimeError",
        reason: str = "",
    ) -> None:
        self.words = words
        self.kept = kept
        self.effect = effect
        self.message = message
        """The library's message."""
        self.blamed = blamed
        self.error = error
        """Class of the error that the library raises."""
        self.reason = reason
        """Why a combination is not offered, when the message does not explain it."""

    def as_json(self) -> Kept:
        return {
            "words": self.words,
            "kept": self.kept,
            "effect": None if self.kept else self.effect,
            "message": None if self.kept else (self.message or None),
            "operands": list(self.blamed),
        }


class Handed(Protocol):
    """An operand, whether it was met or is described."""

    @property
    def kind(self) -> str:
        """Its dtype's name."""

    @property
    def shape(self) -> Tuple[Any, ...]:
        """Numbers, or symbolic values."""

    @property
    def stride(self) -> Optional[Tuple[int, ...]]:
        """None: not known."""

    @property
    def head_dim(self) -> Any:
        """The last dimension."""


@dataclasses.dataclass(frozen=True)
class Described:
    """An operand that is only described."""

    kind: str
    """Its dtype's name, such as "bfloat16"."""
    shape: Tuple[Any, ...]
    stride: Optional[Tuple[int, ...]] = None

    @property
    def head_dim(self) -> object:
        return self.shape[-1] if self.shape else None


@dataclasses.dataclass
class Call:
    """The call to which a contract is applied."""

    operands: Mapping[str, Handed]
    """Role -> Described, or a real operand with the same attributes: q, k, v, and mask, new_k, new_v."""
    capability: Optional[Tuple[int, int]]
    """None when not on an NVIDIA GPU."""
    versions: Dict[str, str] = dataclasses.field(default_factory=dict)
    """Distribution -> version."""
    backward: bool = False
    options: Dict[str, Any] = dataclasses.field(default_factory=dict)
    """autocast: the dtype it casts to around the call; name: the function's; starts: the dtypes of cu_seqlens; and
    window, softcap, dropout, scales, causal, grouped."""

    def release(self, distribution: str) -> Tuple[int, ...]:
        """(2, 8, 3); for an unknown distribution: newer than all."""
        return release_of(self.versions.get(distribution) or "99")

    @property
    def kinds(self) -> Tuple[str, str, str]:
        q, k, v = (self.operands[role].kind for role in "qkv")
        return q, k, v

    @property
    def at_least(self) -> Tuple[int, int]:
        """The GPU's compute capability; lower than all when there is no NVIDIA GPU."""
        return self.capability or (0, 0)


def refused(clauses: Iterable[Clause]) -> Optional[str]:
    """Why a call is not offered: the first broken clause that is not exempt, or None."""
    for clause in clauses:
        if not clause.kept and clause.effect == RAISES:
            return clause.reason or clause.message or clause.words
    return None


def release_of(text: str) -> Tuple[int, ...]:
    """(2, 13, 0) of "2.13.0+cpu"."""
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0])[:3])


def wanted_kind(operands: Mapping[str, Handed], autocast: Optional[str] = None) -> Optional[str]:
    """The dtype that the operands should have: autocast's, else the half type that most of them have."""
    if autocast is not None:
        return autocast
    halves = [operands[r].kind for r in ("v", "k", "q") if r in operands and operands[r].kind in HALVES]
    return max(halves, key=halves.count) if halves else None


def odd(operands: Mapping[str, Handed], autocast: Optional[str] = None) -> Tuple[str, ...]:
    """The operands whose dtype differs from the expected one."""
    present = [r for r in "qkv" if r in operands]
    if len({operands[r].kind for r in present}) <= 1:
        return ()
    wanted = wanted_kind(operands, autocast)
    if wanted is None or all(operands[r].kind != wanted for r in present):
        wanted = operands[present[-1]].kind
    return tuple(r for r in present if operands[r].kind != wanted)


def equal_dtypes(
    operands: Mapping[str, Handed],
    autocast: Optional[str] = None,
    effect: str = RAISES,
    message: str = "",
    error: str = "RuntimeError",
) -> Clause:
    blamed = odd(operands, autocast)
    return Clause("q, k and v have the same dtype", not blamed, effect, message, blamed, error)


def mended_by_autocast(
    operands: Mapping[str, Handed], autocast: Optional[str], message: str = ""
) -> Optional[List[Clause]]:
    """The clauses of a function on autocast's list, which casts q, k and v; None when autocast is off."""
    kinds = [operands[role].kind for role in "qkv"]
    if autocast is None or not all(kind in (*HALVES, "float32") for kind in kinds):
        return None
    found = [equal_dtypes(operands, autocast, REPAIRED, message)]
    if found[0].kept and kinds[0] != autocast:
        found.append(Clause("q, k and v have autocast's dtype", False, REPAIRED, "", ("q", "k", "v")))
    return found


def of_q(call: Call) -> List[Clause]:
    """k and v have q's dtype; the message is that of FlashAttention's C++."""
    operands = call.operands
    found = []
    for role, name in (("k", "key"), ("v", "value")):
        whole = tuple(r for r in ("q", role) if operands[r].kind not in HALVES)
        message = "query and {} must have the same dtype".format(name)
        kept = operands[role].kind == operands["q"].kind
        found.append(Clause(role + " has the dtype of q", kept, RAISES, message, whole or (role,)))
    return found


def heads_divide(call: Call, message: str, error: str = "RuntimeError") -> List[Clause]:
    """The number of k's heads divides that of q; operands are (…, heads, head_dim)."""
    q, k = call.operands["q"], call.operands["k"]
    if len(q.shape) < 3 or len(k.shape) < 3 or not isinstance(q.shape[-2], int) or not k.shape[-2]:
        return []
    kept = q.shape[-2] % k.shape[-2] == 0
    return [Clause("the number of k/v heads divides that of q", kept, RAISES, message, ("k",), error)]


def most_head_dim(call: Call, most: int, message: str, error: str = "RuntimeError") -> List[Clause]:
    dim = call.operands["q"].head_dim
    if not isinstance(dim, int):
        return []
    return [Clause("the head dimension is at most {}".format(most), dim <= most, RAISES, message, ("q",), error)]


def no_mask(call: Call, reason: str) -> List[Clause]:
    """For functions without a mask parameter: no caller can pass one, but a trial may ask for one."""
    return [Clause("no mask is given", False, RAISES, reason)] if "mask" in call.operands else []


def no_such_mask(cell: Cell) -> Optional[str]:
    """Why a cell describes no possible call, or None."""
    if cell.form == "half-mask" and cell.dtype not in HALVES:
        return "a mask in half precision goes with a query in half precision"
    return None
