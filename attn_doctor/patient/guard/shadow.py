"""Sampled rows of one attention call in float64, beside what the kernel gave.

A row's error is its largest difference, divided by what the row is made of: the weights times the absolute values of v.
Cancellation in v therefore alarms nobody, and rounding of the weights or of the result stays below a few units of the
dtype. Rounding of the scores counts more the larger they are: the limit grows with them.
"""

from __future__ import annotations

import random
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from ..dtypes import HALVES
from ..kernels.truth import MOST
from ..trace.record import ops

_CHUNK = 1 << 21
"""Numbers converted to float64 at a time: 16 MiB."""
_SCORES = {"half": 2.0**-16, "float32 on a GPU": 2.0**-10, "float32": 2.0**-18}
"""Relative error of one score: float32 sums of half precision; TF32; float32."""

_MOST_32 = 2.0**-15
"""For float32 on a CPU, which has no TF32."""


class CannotShadow(Exception):
    """The rows of this call cannot be computed here; the message gives the reason."""


class Call(NamedTuple):
    """One call as [batch, heads, length, dim], with the keys that each row sees."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    out: torch.Tensor
    scale: float
    softcap: float
    seen: Callable[[int, int, int], Tuple[int, int, Optional[torch.Tensor]]]
    """(batch, head, row) -> first key, end of keys, and a mask for the keys between them."""
    rounded: Optional[torch.dtype] = None
    """The dtype to which autocast casts q, k and v before the kernel."""

    def wide(self, tensor: torch.Tensor) -> torch.Tensor:
        """The numbers that the kernel gets, in float64."""
        return (tensor if self.rounded is None else tensor.to(self.rounded)).double()


class Row(NamedTuple):
    """A sampled row: its place, and its error and limit as tensors that are not read yet."""

    place: Tuple[int, int, int]
    error: torch.Tensor
    limit: torch.Tensor


def rows(call: Call, count: int, seed: int) -> List[Row]:
    """`count` rows; the last one of the last head is among them, where large offsets go wrong first."""
    batch, heads, length, _ = call.q.shape
    if not (batch and heads and length and call.k.shape[2]):
        raise CannotShadow("it is empty")
    draw = random.Random(seed)  # noqa: S311
    places = [(batch - 1, heads - 1, length - 1)]
    places += [(draw.randrange(batch), draw.randrange(heads), draw.randrange(length)) for _ in range(count - 1)]
    found = [_row(call, place) for place in dict.fromkeys(places)]
    return [one for one in found if one is not None]


def _row(call: Call, place: Tuple[int, int, int]) -> Optional[Row]:
    batch, head, number = place
    first, end, mask = call.seen(batch, head, number)
    if end <= first:
        return None  # it sees no key: kernels give 0 or anything there
    group = call.q.shape[1] // call.k.shape[1]
    q = call.wide(call.q[batch, head, number])
    keys, values = call.k[batch, head // group, first:end], call.v[batch, head // group, first:end]
    step = max(_CHUNK // max(int(q.shape[-1]), int(values.shape[-1]), 1), 1)
    parts = [(at, min(at + step, end - first)) for at in range(0, end - first, step)]
    scores = torch.cat([call.wide(keys[a:b]) @ q for a, b in parts]) * call.scale
    sizes = torch.cat([call.wide(keys[a:b]).abs() @ q.abs() for a, b in parts]) * abs(call.scale)
    if call.softcap:
        scores = torch.tanh(scores / call.softcap) * call.softcap
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask.double()
    weights = torch.softmax(scores, 0)
    true = sum(weights[a:b] @ call.wide(values[a:b]) for a, b in parts)
    made_of = sum(weights[a:b] @ call.wide(values[a:b]).abs() for a, b in parts)
    assert isinstance(true, torch.Tensor)
    assert isinstance(made_of, torch.Tensor)
    scale = made_of.amax().clamp(min=1e-30)
    error = (call.out[batch, head, number].double() - true).abs().amax() / scale
    kind = ops.short(call.rounded or call.q.dtype)
    rounding = _SCORES["half" if kind in HALVES else "float32 on a GPU" if call.q.is_cuda else "float32"]
    most = MOST.get(kind, MOST["float32"]) if call.q.is_cuda or kind in HALVES else _MOST_32
    limit = most + 2.0 * rounding * (weights * sizes).sum()
    # A row without any key has weights of NaN: nothing can be said of it.
    unseen = ~weights.isfinite().all()
    return Row(place, torch.where(unseen, torch.zeros_like(error), error), limit)


def of_sdpa(tensors: Dict[str, Any], given: Dict[str, Any], out: torch.Tensor) -> Call:
    """A call of torch's scaled_dot_product_attention. Raises CannotShadow."""
    q, k, v, result = (_four(one) for one in (tensors["q"], tensors["k"], tensors["v"], out))
    _without_dropout(given)
    mask = given.get("attn_mask")
    causal = bool(given.get("is_causal"))
    if mask is not None:
        mask = mask.expand(*q.shape[:3], k.shape[2])

    def seen(batch: int, head: int, row: int) -> Tuple[int, int, Optional[torch.Tensor]]:
        end = min(row + 1, int(k.shape[2])) if causal else int(k.shape[2])
        return 0, end, None if mask is None else mask[batch, head, row, :end]

    return Call(q, k, v, result, _scale(given.get("scale"), q), 0.0, seen)


def of_flash(tensors: Dict[str, Any], given: Dict[str, Any], out: torch.Tensor) -> Call:
    """A call of flash_attn_func or flash_attn_varlen_func, packed or not. Raises CannotShadow."""
    _without_dropout(given)
    if given.get("alibi_slopes") is not None or given.get("block_table") is not None:
        raise CannotShadow("ALiBi and paged caches are not computed here")
    starts = [given.get(name) for name in ("cu_seqlens_q", "cu_seqlens_k")]
    packed = starts[0] is not None or given.get("cu_seqlens") is not None
    q, k, v, result = (_tokens_first(one, packed) for one in (tensors["q"], tensors["k"], tensors["v"], out))
    both = [[0, int(one.shape[2])] for one in (q, k)]
    if packed:
        both = [[int(n) for n in (one if one is not None else given["cu_seqlens"]).tolist()] for one in starts]
    causal = bool(given.get("causal"))
    left, right = given.get("window_size") or (-1, -1)
    right = 0 if causal else right

    def seen(batch: int, head: int, row: int) -> Tuple[int, int, Optional[torch.Tensor]]:
        document = next((n for n in range(len(both[0]) - 1) if both[0][n] <= row < both[0][n + 1]), None)
        if document is None:
            return 0, 0, None  # a token behind the last document
        (q0, q1), (k0, k1) = both[0][document : document + 2], both[1][document : document + 2]
        at = row - q0 + (k1 - k0) - (q1 - q0)  # aligned to the last key
        first = 0 if left < 0 else max(at - left, 0)
        end = k1 - k0 if right < 0 else min(at + right + 1, k1 - k0)
        return k0 + first, k0 + max(end, first), None

    return Call(q, k, v, result, _scale(given.get("softmax_scale"), q), float(given.get("softcap") or 0.0), seen)


def _four(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_nested or tensor.dim() not in (2, 3, 4):
        raise CannotShadow("its tensors have {} dimensions".format("nested" if tensor.is_nested else tensor.dim()))
    return tensor if tensor.dim() == 4 else tensor[(None,) * (3 - tensor.dim())].unsqueeze(1)


def _tokens_first(tensor: torch.Tensor, packed: bool) -> torch.Tensor:
    if tensor.dim() != (3 if packed else 4):
        raise CannotShadow("its tensors have {} dimensions".format(tensor.dim()))
    return (tensor[None] if packed else tensor).transpose(1, 2)


def _without_dropout(given: Dict[str, Any]) -> None:
    if given.get("dropout_p"):
        raise CannotShadow("dropout makes its rows random")


def _scale(given: Optional[float], q: torch.Tensor) -> float:
    return float(given) if given is not None else float(q.shape[-1]) ** -0.5
