"""flash-linear-attention: what its functions give back.

Source: fla-org/flash-linear-attention, fla/ops (0.1 to 0.6.0).
"""

from __future__ import annotations

from typing import Any, Dict

_OUTPUT_ALONE = ("parallel_attn", "parallel_forgetting_attn", "parallel_nsa", "parallel_based", "parallel_rebased")


def answer(name: str, given: Dict[str, Any], out: Any, q: Any, v: Any) -> Any:
    """The output, and the state that it ends in: None unless it is asked for. Attention with a softmax has none."""
    if name in _OUTPUT_ALONE or name.startswith("attn_"):
        return out
    if not given.get("output_final_state"):
        return out, None
    starts = given.get("cu_seqlens")
    batch = q.shape[0] if starts is None else int(starts.shape[0]) - 1
    heads = q.shape[1] if given.get("head_first") else q.shape[2]
    state = q.detach().new_zeros((batch, heads, q.shape[-1], v.shape[-1])).float()
    if name.endswith("gsa"):
        slots = given["s"].shape[-1]
        return out, (state.new_zeros((*state.shape[:3], slots)), state.new_zeros((batch, heads, slots, v.shape[-1])))
    return out, state
