"""flash-linear-attention: what its functions give back. It states no contract.

Source: fla-org/flash-linear-attention, fla/ops (0.1 to 0.6.0).
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from .contract import HALVES
from .library import Library

LINEAR_HEAD_DIMS = {
    "fla-gated-delta-rule": (128, 64),
    "fla-gla": (64,),
    "fla-gsa": (64,),
    "fla-rwkv7": (64,),
}


def offered(cell: Any, place: Any) -> Optional[str]:
    """Pinned configurations for each of its kernels: the head dims that published models have, a whole sequence."""
    if cell.form != "causal":
        return "linear attention is causal and takes no mask"
    if cell.dtype not in HALVES:
        return "its chunked kernels do not support float32; bfloat16 is asked for"
    pinned = LINEAR_HEAD_DIMS[cell.backend]
    words = " and ".join(str(dim) for dim in pinned)
    return None if cell.head_dim in pinned else "pinned configurations are run: head dim {}".format(words)


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


LIBRARY = Library(
    name="fla",
    distributions=("flash-linear-attention", "fla-core", "fla"),
    functions=((r"fla\.ops\.", r"(chunk|fused|parallel|recurrent|naive)_\w+$|attn_\w+$"),),
    answer=lambda met: answer(met.name, met.given, met.out, met.operands["q"], met.operands["v"]),
)
