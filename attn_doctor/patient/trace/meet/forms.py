"""The forms of attention calls: shapes, strides, dtypes and flags without values, each once with its count.

`trace --record` keeps them; kernels/recorded.py makes trials of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import torch

from ..record import ops

if TYPE_CHECKING:
    from ...arguments import Given
    from ..answer import Form
    from .attention import Record

_MOST = 1000
_BY_HEADS = ("scaled_dot_product_attention", "flex_attention")
"""Functions that take (batch, heads, length, head_dim); all others take (batch, length, heads, head_dim)."""


def flags_of(given: Given) -> Dict[str, Any]:
    """The arguments that decide what a call computes, under one name for all libraries."""
    window = given.get("window_size")
    ends = next((given[name] for name in ("cu_seqlens_q", "cu_seqlens", "cu_seq_q") if name in given), None)
    found = {
        "causal": bool(_plain(given, "is_causal", "causal")),
        "dropout": _plain(given, "dropout_p", "p"),
        "scale": given.get("scale", given.get("softmax_scale")),
        "window": [-1 if side is None else int(side) for side in window] if isinstance(window, (tuple, list)) else None,
        "softcap": _plain(given, "softcap") or None,
        "gqa": bool(_plain(given, "enable_gqa")),
        "documents": int(ends.shape[0]) - 1 if isinstance(ends, torch.Tensor) else None,
    }
    if not isinstance(found["scale"], (int, float)):
        found["scale"] = None
    return found


def _plain(given: Given, *names: str) -> float:
    """The first of them that is a number, else 0.0: one's own functions may give a tensor one of these names."""
    return next((float(given[name]) for name in names if isinstance(given.get(name), (int, float))), 0.0)


class Forms:
    """The forms that were seen in one recording, in their order."""

    def __init__(self) -> None:
        self._seen: Dict[Tuple[object, ...], Form] = {}

    def note(self, record: Record) -> None:
        """A call whose operands or flags are not known, or that attention's own backward pass makes, has no form."""
        if record.flags is None or record.backward or not {"q", "k", "v"} <= set(record.operands):
            return
        roles = [role for role in ("q", "k", "v", "mask") if role in record.operands]
        operands = {role: record.operands[role] for role in roles}
        if any(not isinstance(size, int) for one in operands.values() for size in one.shape):
            return
        form: Form = {
            "name": record.name,
            "library": record.library,
            "by_heads": record.name in _BY_HEADS,
            "dtypes": {role: one.kind for role, one in operands.items()},
            "shapes": {role: [int(size) for size in one.shape] for role, one in operands.items()},
            "strides": {role: None if one.stride is None else list(one.stride) for role, one in operands.items()},
            "flags": record.flags,
            "autocast": ops.short(record.autocast) if record.autocast is not None else None,
            "trains": record.trains,
            "backend": record.backend["taken"] if record.backend is not None else None,
            "calls": 1,
            "place": "{}:{}".format(*record.site[:2]) if record.site is not None else None,
        }
        key = tuple(str(value) for name, value in form.items() if name != "calls")
        known: Optional[Form] = self._seen.get(key)
        if known is not None:
            known["calls"] += 1
        elif len(self._seen) < _MOST:
            self._seen[key] = form

    def as_json(self) -> List[Form]:
        return list(self._seen.values())
