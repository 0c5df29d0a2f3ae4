"""SageAttention: what it gives back.

Sources: sageattention 1.0.6 and thu-ml/SageAttention (tag 2.2.0 and 2026-01), sageattention/core.py.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple


def answer(name: str, given: Dict[str, Any], out: Any, q: Any, release: Tuple[int, ...]) -> Any:
    """An output without gaps and without a history, in q's dtype; 2.x cuts it out of a head dimension of 64 or 128."""
    dim = q.shape[-1]
    wide = (64 if dim < 64 else 128) if release >= (2,) and dim not in (64, 128) and dim < 128 else dim
    room = q.detach().new_empty((*q.shape[:-1], wide))[..., :dim]
    room.copy_(out.detach())
    if not given.get("return_lse"):
        return room
    heads_first = given.get("tensor_layout", "HND") == "HND"
    shape = (q.shape[0], q.shape[1], q.shape[2]) if heads_first else (q.shape[0], q.shape[2], q.shape[1])
    return room, room.new_zeros(shape).float()
