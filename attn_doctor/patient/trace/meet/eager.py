"""Attention written in torch operations, softmax(q k^T) v: recognized by the computation, not by names.

A product counts as attention if one operand descends, through operations other than products, from a softmax, and that
softmax in the same way from a product of two computed tensors. A router or a pooling layer multiplies by a weight and
does not count. No kernel is called there, so no contract can be broken: products of two dtypes raise by themselves.

Only in forward passes, and not inside attention functions.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, Deque, Optional, Tuple

import torch

from ..record import ops
from ..record.graph import PARAMETER, Event, Node
from .attention import Attention
from .operands import Operand

if TYPE_CHECKING:
    from types import FrameType

    from ...arguments import Positional

NAME = "eager attention"
_PRODUCTS = frozenset(("aten::bmm", "aten::baddbmm", "aten::mm", "aten::matmul"))
"""matmul itself is only seen where no layer decomposes it: in inference mode."""
_SOFTMAX = frozenset(("aten::_softmax", "aten::softmax", "aten::_safe_softmax"))
_MOST_STEPS = 24
"""Most nodes followed between a product and a softmax: dropout, casts, masks, scales, soft caps and views."""
_MOST_PRODUCTS = 64

Shape = Tuple[int, ...]


class Eager:
    """Called with every product of two tensors."""

    def __init__(self, attention: Attention) -> None:
        self.attention = attention
        # Their shapes, which nodes do not store.
        self._products: Deque[Tuple[Event, Shape, Shape]] = collections.deque(maxlen=_MOST_PRODUCTS)

    def __call__(self, event: Event, args: Positional, frame: FrameType) -> None:
        if self.attention.depth or ops.kind_of(event.op).name not in _PRODUCTS:
            return
        if len(event.inputs) < 2:
            return
        left, right = event.inputs[-2:]
        if left.flags & PARAMETER or right.flags & PARAMETER or torch._C._current_autograd_node() is not None:
            return
        first, second = [value for value in args if isinstance(value, torch.Tensor)][-2:]
        for weights, value, tensor in ((left, right, second), (right, left, first)):
            scores = _behind(weights, _SOFTMAX)
            softmax = scores.event if scores is not None else None
            product = _behind(softmax.inputs[0], _PRODUCTS) if softmax is not None else None
            if product is not None and product.event is not None:
                shapes = next((one[1:] for one in self._products if one[0] is product.event), None)
                if shapes is not None:
                    self._noted(event, product.event, shapes, value, tensor, frame)
                return
        self._products.append((event, tuple(first.shape), tuple(second.shape)))

    def _noted(
        self,
        event: Event,
        product: Event,
        shapes: Tuple[Shape, ...],
        value: Node,
        tensor: torch.Tensor,
        frame: FrameType,
    ) -> None:
        record = self.attention.opened(NAME, "torch", {}, frame)
        (*batch, length, dim), (*_, across, wide) = shapes
        query, key = product.inputs[-2:]
        # k is transposed: its last dimension is the length.
        record.operands = {
            "q": Operand.described("q", query.dtype, (*batch, length, dim), query),
            "k": Operand.described("k", key.dtype, (*batch, wide, across), key),
            "v": Operand.described("v", value.dtype, tuple(tensor.shape), value),
        }
        record.autocast = self.attention.autocast_dtype(on=event.call.autocast)
        record.written_out = True
        self.attention.add(record)


def _behind(node: Node, wanted: Any) -> Optional[Node]:
    """The nearest earlier node made by an operation in `wanted`, with no product in between."""
    waiting, seen = collections.deque([node]), 0
    while waiting and seen < _MOST_STEPS:
        seen += 1
        one = waiting.popleft()
        if one.event is None:
            continue
        name = ops.kind_of(one.event.op).name
        if name in wanted:
            return one if one.event.inputs else None
        if not ops.kind_of(one.event.op).product and name not in _SOFTMAX:
            waiting.extend(one.event.inputs)
    return None
