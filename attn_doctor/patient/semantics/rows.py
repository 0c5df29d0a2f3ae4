"""The rows of a tensor that belong to certain tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Optional

if TYPE_CHECKING:
    import torch

Rows = Callable[["torch.Tensor"], Optional["torch.Tensor"]]


def token_dimension(tensor: torch.Tensor, length: int) -> Optional[int]:
    """The dimension with one entry for each token; None when there is none, or for scores of tokens with tokens."""
    found = [place for place, size in enumerate(tensor.shape) if size == length and (place or tensor.dim() == 1)]
    if not found or (tensor.dim() > 2 and tuple(tensor.shape[-2:]) == (length, length)):
        return None
    if len(found) == 1:
        return found[0]
    usual = 1 if tensor.dim() <= 3 else tensor.dim() - 2
    return usual if usual in found else found[0]


def at(positions: slice, length: int) -> Rows:
    """The rows of these tokens."""

    def rows(tensor: torch.Tensor) -> Optional[torch.Tensor]:
        place = token_dimension(tensor, length)
        if place is None:
            return None
        return tensor[(slice(None),) * place + (positions,)]

    return rows


def put_at(positions: slice, length: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A function that replaces these rows of its first argument by those of its second."""

    def put(tensor: torch.Tensor, good: torch.Tensor) -> torch.Tensor:
        place = token_dimension(tensor, length)
        if place is None or tensor.shape != good.shape:
            return tensor
        where = (slice(None),) * place + (positions,)
        mended = tensor.clone()
        mended[where] = good[where].to(mended.dtype)
        return mended

    return put
