"""Inputs of a trial: fresh random q, k and v, and the form's other operands; the seed is recorded.

Tensors are (batch, heads, length, head_dim) and leaves; a backend converts them to its own layout. `allowed` and `bias`
define the form independently of the backend. `meant` gives the represented numbers: for float8, the stored numbers
times their scale, so that rounding the operands does not count as an error.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional, Tuple

import torch

from ..dtypes import EIGHT_BITS
from .cells import Cell

WINDOW = 128
SOFTCAP = 20.0
_DOCUMENTS = (0.2, 0.5, 0.3)  # shares of the length: sequences packed one after the other

Sizes = Tuple[int, int, int]
SMALL: Sizes = (2, 8, 512)
"""(batch, heads, length) for comparing results with the reference."""
LARGE: Sizes = (2, 16, 2048)
"""The same for speed: the plain computation's scores take 0.5 GiB in float32, which bounds the memory."""
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

    def allowed(self) -> Optional[torch.Tensor]:
        """(length, length) or (1, 1, length, length), True where a query sees a key; None: everywhere."""
        length = self.q.shape[-2]
        here = torch.arange(length, device=self.device)
        distance = here[:, None] - here[None, :]
        if self.mask is not None and self.mask.dtype == torch.bool:
            return self.mask
        if self.window is not None:
            return (distance >= 0) & (distance < self.window)
        if self.documents is not None:
            number = self.document_numbers()
            return (number[:, None] == number[None, :]) & (distance >= 0)
        return distance >= 0 if self.causal else None

    def document_numbers(self) -> torch.Tensor:
        lengths = torch.tensor(self.documents, device=self.device)
        return torch.repeat_interleave(torch.arange(len(lengths), device=self.device), lengths)

    def bias(self) -> Optional[torch.Tensor]:
        return self.mask if self.mask is not None and self.mask.dtype != torch.bool else None

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
    batch, heads, length = sizes
    dtype = getattr(torch, cell.dtype)
    generator = torch.Generator(device=device).manual_seed(seed)
    if cell.form == "varlen":
        batch, length = 1, batch * length
    trains = cell.direction == "train"

    def tensor(count: int) -> torch.Tensor:
        made = torch.randn(batch, count, length, cell.head_dim, generator=generator, device=device).to(dtype)
        return made.requires_grad_(trains)

    kv_heads = max(1, heads // 4) if cell.form == "gqa" else heads
    scales: Dict[str, torch.Tensor] = {}
    if cell.dtype == EIGHT_BITS:
        drawn = {
            name: torch.randn(batch, count, length, cell.head_dim, generator=generator, device=device)
            for name, count in (("q", heads), ("k", kv_heads), ("v", kv_heads))
        }
        # If all scales were equal, a kernel that uses another head's scale would pass.
        drawn["v"] *= 1 + torch.arange(kv_heads, device=device)[:, None, None] % 2
        q, k, v = (_in_eight_bits(one, kv_heads, name, scales) for name, one in drawn.items())
    else:
        q, k, v = tensor(heads), tensor(kv_heads), tensor(kv_heads)
    problem = Problem(
        cell=cell,
        q=q,
        k=k,
        v=v,
        out_gradient=torch.randn(q.shape, generator=generator, device=device).to(result_dtype(cell)),
        scale=cell.head_dim**-0.5,
        causal=cell.form in ("causal", "gqa"),
        gqa=cell.form == "gqa",
        window=WINDOW if cell.form == "window" else None,
        softcap=SOFTCAP if cell.form == "softcap" else None,
        scales=scales,
    )
    if cell.form == "varlen":
        parts = [int(length * part) for part in _DOCUMENTS[:-1]]
        problem.documents = [*parts, length - sum(parts)]
    elif cell.form == "bool-mask":
        mask = torch.rand(1, 1, length, length, generator=generator, device=device) < 0.75
        # For a query that sees no key, kernels give different results: each query always sees its own position.
        problem.mask = mask | torch.eye(length, dtype=torch.bool, device=device)
    elif cell.form in ("half-mask", "fp32-mask"):
        # Finite, and exactly representable in bfloat16: a kernel that misreads the bytes of a float32 mask then gives a
        # finite error, where other masks give NaN.
        bias = torch.randn(1, 1, length, length, generator=generator, device=device).to(torch.bfloat16)
        problem.mask = bias.to(torch.float32 if cell.form == "fp32-mask" else dtype)
    return problem
