"""Finds changes that move a call from SDPA's math fallback to a fused backend, and computes the cost of math.

This module does not use the reasons of a refusal: it tries changes that a person can make to the call, one, two and
three at a time, and torch's own rules (choice.py) decide whether they suffice.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Callable, Dict, List, Optional, Tuple

from ...dtypes import HALVES
from ..cuda.simulated_gpu import Gpu
from ..triton.driver import version_of
from .rules import MATH, Call, Tensor

Chooses = Callable[[Call], Optional[str]]
"""The backend that a call would get; None when unknown, or when it would raise."""

_MOST = 3
"""Most ways reported, and most changes in one way."""


@dataclasses.dataclass(frozen=True)
class Way:
    """Changes of a call, in words, that move it to `backend`."""

    backend: str
    words: str


def ways(call: Call, gpu: Gpu, chooses: Chooses) -> Tuple[Way, ...]:
    """The smallest sets of changes that move `call` away from math; empty when no known change does."""
    changes = [(words, change) for words, change in _changes(call, gpu) if change(call) != call]
    for count in range(1, _MOST + 1):
        found: Dict[str, Way] = {}
        for chosen in itertools.combinations(changes, count):
            changed = call
            for _, change in chosen:
                changed = change(changed)
            backend = chooses(changed)
            if backend not in (None, MATH):
                words = ", and ".join(words for words, _ in chosen)
                found.setdefault(words, Way(str(backend), words))
        if found:
            return tuple(found.values())[:_MOST]
    return ()


def score_bytes(call: Call, torch_version: str) -> int:
    """Bytes of the score matrix, one score for each query and key, which math materializes and a fused backend does
    not.

    From torch 2.5 on math computes half precision in float32. Its softmax is equally large, and kept for a backward
    pass.
    """
    half = call.query.dtype in HALVES and version_of(torch_version) < (2, 5)
    size = 2 if half else 8 if call.query.dtype == "float64" else 4
    leading = [tensor.shape[:-2] for tensor in (call.query, call.key)]
    deep = max(len(shape) for shape in leading)
    padded = [(1,) * (deep - len(shape)) + tuple(shape) for shape in leading]
    matrices = math.prod(max(sizes) for sizes in zip(*padded))
    return int(size * matrices * call.query.shape[-2] * call.key.shape[-2])


def operand_bytes(call: Call) -> int:
    """Bytes of q, k, v and the output, which every backend holds."""
    size = {"float16": 2, "bfloat16": 2, "float64": 8}.get(call.query.dtype, 4)
    output = math.prod(call.query.shape[:-1]) * call.value.shape[-1]
    return size * (sum(math.prod(tensor.shape) for tensor in call.tensors) + output)


# ---------------------------------------------------------------------------------------------------------------
# Changes; those that do not alter the result come first


def _changes(call: Call, gpu: Gpu) -> List[Tuple[str, Callable[[Call], Call]]]:
    half = "bfloat16" if gpu.capability[0] >= 8 else "float16"
    heads = call.query.shape[1] if len(call.query.shape) == 4 else 0
    return [
        ("make attn_mask contiguous: attn_mask.contiguous()", _mask_contiguous),
        ("make q, k and v contiguous: .contiguous()", _operands(lambda t: dataclasses.replace(t, strides=None))),
        ("hand SDPA 4-D tensors (batch, heads, length, head dimension): unsqueeze(0)", _four_dimensional),
        (f"repeat k and v to the {heads} heads of q: repeat_interleave(…, dim=1)", _repeated),
        ("expand attn_mask to (batch, heads, q length, k length)", _mask_expanded),
        ("give an attn_mask that requires no gradient: attn_mask.detach()", _mask_detached),
        (f"hand SDPA {half} instead of {call.query.dtype}", _operands(lambda t: dataclasses.replace(t, dtype=half))),
        ("pad the head dimension of q, k and v to one multiple of 8, with scale= of the real one", _padded),
        ("pass is_causal=True instead of attn_mask, if the mask is causal and no more", _causal),
        ("pass no attn_mask, if it masks nothing", lambda call: dataclasses.replace(call, mask=None)),
        ("use an attn_mask of that shape instead of is_causal, whose two lengths differ here", _masked),
        ("copy q, k and v so that they begin where the kernel can load them: .clone()", _from_the_start),
    ]


def _operands(change: Callable[[Tensor], Tensor]) -> Callable[[Call], Call]:
    def changed(call: Call) -> Call:
        query, key, value = (change(tensor) for tensor in call.tensors)
        mask = call.mask
        if mask is not None and mask.dtype == call.query.dtype and query.dtype != call.query.dtype:
            mask = dataclasses.replace(mask, dtype=query.dtype)
        return dataclasses.replace(call, query=query, key=key, value=value, mask=mask)

    def only_where_needed(call: Call) -> Call:
        same = all(change(t).dtype == t.dtype and t.last_stride == 1 for t in call.tensors)
        return call if same else changed(call)

    return only_where_needed


def _with_mask(change: Callable[[Call, Tensor], Tensor]) -> Callable[[Call], Call]:
    return lambda call: call if call.mask is None else dataclasses.replace(call, mask=change(call, call.mask))


_mask_contiguous = _with_mask(
    lambda call, mask: mask if mask.last_stride == 1 else dataclasses.replace(mask, strides=None)
)
_mask_detached = _with_mask(lambda call, mask: dataclasses.replace(mask, requires_grad=False))
_mask_expanded = _with_mask(
    lambda call, mask: (
        dataclasses.replace(
            mask,
            shape=(*call.query.shape[:-1], call.key.shape[-2]),
            strides=None if mask.last_stride == 1 else mask.strides,
        )
        if len(call.query.shape) == 4 and mask.shape[-1] == 1 or len(mask.shape) not in (2, 4)
        else mask
    )
)


def _four_dimensional(call: Call) -> Call:
    if {len(tensor.shape) for tensor in call.tensors} != {3}:
        return call

    def deeper(tensor: Tensor) -> Tensor:
        strides = None if tensor.strides is None else (tensor.shape[0] * tensor.strides[0], *tensor.strides)
        return dataclasses.replace(tensor, shape=(1, *tensor.shape), strides=strides)

    mask = deeper(call.mask) if call.mask is not None and len(call.mask.shape) == 3 else call.mask
    query, key, value = (deeper(tensor) for tensor in call.tensors)
    return dataclasses.replace(call, query=query, key=key, value=value, mask=mask)


def _repeated(call: Call) -> Call:
    if {len(tensor.shape) for tensor in call.tensors} != {4}:
        return call
    query, key, value = call.tensors
    if query.shape[1] == key.shape[1] == value.shape[1] or not all(t.shape[1] for t in call.tensors):
        return call
    if query.shape[1] % key.shape[1] or query.shape[1] % value.shape[1]:
        return call

    def wide(tensor: Tensor) -> Tensor:
        shape = (tensor.shape[0], query.shape[1], *tensor.shape[2:])
        return dataclasses.replace(tensor, shape=shape, strides=None)

    return dataclasses.replace(call, key=wide(key), value=wide(value), enable_gqa=False)


def _padded(call: Call) -> Call:
    widest = max(tensor.shape[-1] for tensor in call.tensors)
    wanted = -(-widest // 8) * 8
    if all(tensor.shape[-1] == wanted for tensor in call.tensors):
        return call

    def wide(tensor: Tensor) -> Tensor:
        if tensor.shape[-1] == wanted:
            return tensor
        return dataclasses.replace(tensor, shape=(*tensor.shape[:-1], wanted), strides=None)

    query, key, value = (wide(tensor) for tensor in call.tensors)
    return dataclasses.replace(call, query=query, key=key, value=value)


def _causal(call: Call) -> Call:
    square = call.query.shape[-2] == call.key.shape[-2]
    if call.mask is None or call.causal or not square:
        return call
    return dataclasses.replace(call, mask=None, causal=True)


def _masked(call: Call) -> Call:
    lengths = call.query.shape[-2], call.key.shape[-2]
    if not call.causal or call.mask is not None or lengths[0] == lengths[1]:
        return call
    return dataclasses.replace(call, causal=False, mask=Tensor(shape=lengths, dtype="bool"))


def _from_the_start(call: Call) -> Call:
    query, key, value = (dataclasses.replace(tensor, storage_offset=0) for tensor in call.tensors)
    return dataclasses.replace(call, query=query, key=key, value=value)
