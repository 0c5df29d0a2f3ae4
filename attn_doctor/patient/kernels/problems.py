"""Inputs of a trial: fresh random q, k and v, and the form's other operands; the seed is recorded.

Tensors are (batch, heads, length, head_dim) and leaves; a backend converts them to its own layout. `allowed` and `bias`
define the form independently of the backend. `meant` gives the represented numbers: for float8, the stored numbers
times their scale, so that rounding the operands does not count as an error.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional

import torch

from ..dtypes import EIGHT_BITS
from . import situations, values
from .cells import Cell
from .operands import Shapes
from .shapes import SMALL, Sizes, shapes_of

__all__ = ["LARGE", "SMALL", "TINY", "Problem", "Sizes", "make_problem", "result_dtype"]

LARGE: Sizes = (2, 16, 2048)
"""The same for speed: the plain computation's scores take 0.5 GiB in float32, which bounds the memory."""
_MOST_SCORES = 1 << 27
"""Above that, some queries are judged: the reference has several such matrices in float64."""
TINY: Sizes = (2, 4, 256)
"""For CPU tensors."""


@dataclasses.dataclass
class Problem:
    """One attention call, with its definition."""

    cell: Cell
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out_gradient: torch.Tensor
    """Input of the backward pass; shape and dtype of the output."""
    scale: float
    causal: bool = False
    gqa: bool = False
    mask: Optional[torch.Tensor] = None
    """As a caller would pass it: (1, 1, length, length)."""
    window: Optional[int] = None
    """Number of keys that a query sees, including its own position."""
    softcap: Optional[float] = None
    documents: Optional[List[int]] = None
    """Lengths of the sequences packed along the length (batch is 1), each causal."""
    rows: Optional[torch.Tensor] = None
    """Indices of the queries whose output is judged; None: all. The others receive no gradient."""
    extra: Dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    """Further operands of linear attention, by name."""
    scales: Dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    """Scales of q, k and v in float8, (batch, key-value heads) each, as FlashAttention-3 takes them; empty for other
    dtypes.
    """

    @property
    def device(self) -> torch.device:
        return self.q.device

    def leaves(self) -> Dict[str, torch.Tensor]:
        return {"q": self.q, "k": self.k, "v": self.v, **self.extra}

    def meant(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """The numbers that the operand `name` represents, in `dtype`."""
        operand = self.leaves()[name].detach().to(dtype)
        if name not in self.scales:
            return operand
        scale = self.scales[name].to(dtype)
        return operand * scale.repeat_interleave(operand.shape[1] // scale.shape[1], dim=1)[..., None, None]

    def judged(self, of_each_query: torch.Tensor) -> torch.Tensor:
        """The part of a tensor (…, queries, n) that belongs to the judged queries."""
        return of_each_query if self.rows is None else of_each_query.index_select(-2, self.rows)

    def allowed(self, *, whole: bool = False) -> Optional[torch.Tensor]:
        """(queries, keys) or a boolean mask, True where a judged query sees a key; None: everywhere. whole: of all
        queries.
        """
        if whole and self.rows is not None:
            return dataclasses.replace(self, rows=None).allowed()
        if self.mask is not None and self.mask.dtype == torch.bool:
            return self._of_judged(self.mask)
        if self.window is None and self.documents is None and not self.causal:
            return None
        here = torch.arange(self.q.shape[-2], device=self.device)
        distance = self.judged(here[:, None]) - torch.arange(self.k.shape[-2], device=self.device)[None, :]
        if self.window is not None:
            return (distance >= 0) & (distance < self.window)
        if self.documents is not None:
            number = self.document_numbers()
            return (self.judged(number[:, None]) == number[None, :]) & (distance >= 0)
        return distance >= 0

    def _of_judged(self, mask: torch.Tensor) -> torch.Tensor:
        return mask if mask.shape[-2] == 1 else self.judged(mask)

    def document_numbers(self) -> torch.Tensor:
        """The packed sequence of each token; that of tokens behind the last one is one more."""
        documents = list(self.documents or ())
        lengths = torch.tensor([*documents, self.q.shape[-2] - sum(documents)], device=self.device)
        return torch.repeat_interleave(torch.arange(len(lengths), device=self.device), lengths)

    def bias(self) -> Optional[torch.Tensor]:
        """The additive mask of the judged queries, or None."""
        return self._of_judged(self.mask) if self.mask is not None and self.mask.dtype != torch.bool else None

    def without_gradients(self) -> None:
        for tensor in self.leaves().values():
            tensor.grad = None


def result_dtype(cell: Cell) -> torch.dtype:
    """The dtype of the output. Kernels with float8 inputs return bfloat16."""
    return torch.bfloat16 if cell.dtype == EIGHT_BITS else getattr(torch, cell.dtype)


def _in_eight_bits(drawn: torch.Tensor, groups: int, name: str, scales: Dict[str, torch.Tensor]) -> torch.Tensor:
    """`drawn` in float8, scaled so that the largest number of each key-value head's group is the largest that the dtype
    holds.
    """
    dtype = getattr(torch, EIGHT_BITS)
    largest = drawn.unflatten(1, (groups, -1)).abs().amax(dim=(2, 3, 4))
    scales[name] = largest / torch.finfo(dtype).max
    share = drawn.shape[1] // groups
    return (drawn / scales[name].repeat_interleave(share, dim=1)[..., None, None]).to(dtype)


def make_problem(cell: Cell, device: str, seed: int, sizes: Sizes) -> Problem:
    """Makes the problem for an attention with softmax."""
    situation, shapes = situations.named(cell.situation), shapes_of(cell, sizes)
    generator = torch.Generator(device=device).manual_seed(seed)
    trains = cell.direction == "train"
    scales: Dict[str, torch.Tensor] = {}
    drawn = values.drawn(shapes, situation, generator, device)
    if cell.dtype == EIGHT_BITS:
        # If all scales were equal, a kernel that uses another head's scale would pass.
        drawn["v"] *= 1 + torch.arange(shapes.v.shape[1], device=device)[:, None, None] % 2
        operands = {name: _in_eight_bits(one, shapes.k.shape[1], name, scales) for name, one in drawn.items()}
    else:
        operands = _laid_out(drawn, shapes)
    q, k, v = (one.requires_grad_(trains) for one in operands.values())
    out_shape = (*shapes.q.shape[:3], shapes.v.shape[3])
    problem = Problem(
        cell=cell,
        q=q,
        k=k,
        v=v,
        out_gradient=torch.randn(out_shape, generator=generator, device=device).to(result_dtype(cell)),
        scale=shapes.scale or float(shapes.q.shape[3]) ** -0.5,
        causal=shapes.causal,
        gqa=shapes.gqa,
        window=shapes.window,
        softcap=shapes.softcap,
        documents=None if shapes.documents is None else list(shapes.documents),
        scales=scales,
    )
    if shapes.mask is not None:
        problem.mask = values.mask(shapes, situation, generator, device)
    length, scores = shapes.q.shape[2], shapes.q.shape[0] * shapes.q.shape[1] * shapes.q.shape[2] * shapes.k.shape[2]
    if situation.judged_rows or scores > _MOST_SCORES:
        drawn_rows = torch.randint(length, (96,), generator=generator, device=device)
        last = torch.arange(max(length - 32, 0), length, device=device)
        problem.rows = torch.cat([drawn_rows, last]).unique()
    elif shapes.packed < shapes.q.shape[2]:
        problem.rows = torch.arange(shapes.packed, device=device)
    return problem


def _laid_out(drawn: Dict[str, torch.Tensor], shapes: Shapes) -> Dict[str, torch.Tensor]:
    """The drawn numbers in the dtypes and strides of the call."""
    found: Dict[str, torch.Tensor] = {}
    storage, offset = None, 0
    if shapes.one_storage:
        room = sum(one.numel() for one in drawn.values())
        storage = torch.zeros(room, dtype=getattr(torch, shapes.q.kind), device=drawn["q"].device)
    for name, one in (("q", shapes.q), ("k", shapes.k), ("v", shapes.v)):
        numbers = drawn[name].to(getattr(torch, one.kind))
        found[name] = numbers if one.stride is None else values.laid_out(numbers, one.stride, storage, offset)
        offset += one.shape[1] * one.shape[3] * shapes.one_storage
    return found


def relaid(problem: Problem, seed: int) -> Problem:
    """The same call with other values in contiguous tensors: what a cache may have kept from before."""
    cell = dataclasses.replace(problem.cell, situation="")
    generator = torch.Generator(device=problem.device).manual_seed(seed + 1)

    def other(tensor: torch.Tensor) -> torch.Tensor:
        return torch.randn(tensor.shape, generator=generator, device=tensor.device).to(tensor.dtype)

    found = dataclasses.replace(problem, cell=cell, out_gradient=other(problem.out_gradient))
    for name in ("q", "k", "v"):
        leaf = getattr(problem, name)
        setattr(found, name, other(leaf).requires_grad_(leaf.requires_grad))
    if problem.mask is not None and problem.mask.dtype == torch.bool:
        eye = torch.eye(*problem.mask.shape[-2:], dtype=torch.bool, device=problem.device)
        found.mask = ~problem.mask | eye
    return found
