"""Dtype errors that fake tensors do not raise: products that a GPU refuses for operands of two dtypes.

Of 477 op x dtype x autocast cells, fake tensors and an H200 differed in fourteen, all of this kind (torch 2.11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, Tuple

import torch

from . import ops

if TYPE_CHECKING:
    from ...arguments import Positional

_OPERANDS: Dict[str, Tuple[int, ...]] = {
    "aten::mm": (0, 1),
    "aten::bmm": (0, 1),
    "aten::addmm": (1, 2, 0),
    "aten::baddbmm": (1, 2, 0),
    "aten::addbmm": (1, 2, 0),
    "aten::mv": (0, 1),
    "aten::dot": (0, 1),
    "aten::linear": (0, 1, 2),
    "aten::convolution": (0, 1, 2),
    "aten::_convolution": (0, 1, 2),
    "aten::linalg_cross": (0, 1),
    "aten::_cdist_forward": (0, 1),
}


def check(op: object, args: Positional) -> None:
    """Raises the operation's error on a GPU if its operands differ in dtype."""
    name = ops.kind_of(op).name
    positions = _OPERANDS.get(name)
    if positions is None:
        return
    dtypes = [args[i].dtype for i in positions if i < len(args) and isinstance(args[i], torch.Tensor)]
    if len(set(dtypes)) <= 1 or any(d not in ops.FLOATS for d in dtypes):
        return
    first = dtypes[0]
    other = next(d for d in dtypes if d != first)
    if "convolution" in name:
        raise RuntimeError(
            "Input type ({}) and weight type ({}) should be the same".format(ops.c10_name(first), ops.c10_name(other))
        )
    raise RuntimeError(
        "expected m1 and m2 to have the same dtype, but got: {} != {}".format(ops.c10_name(first), ops.c10_name(other))
    )
