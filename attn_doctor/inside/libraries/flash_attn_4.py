"""FlashAttention 4: what stands in for it.

Source: flash_attn/cute/interface.py of flash-attn-4 4.0.0b4, b12, b24 and b36.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict

WORDS = "flash_attn 4 stand-in: the checks of its kernels, the arithmetic of torch"

_OPTIONS = (
    "softmax_scale=None, causal=False, window_size=(None, None), learnable_sink=None, softcap=0.0, num_splits=1, "
    "pack_gqa=None, deterministic=False, score_mod=None, score_mod_bwd=None, mask_mod=None, "
)
PARAMETERS: Dict[str, str] = {
    "flash_attn_func": "q, k, v, qv=None, gather_kv_indices=None, " + _OPTIONS + "aux_tensors=None, aux_scalars=None, "
    "block_sparse_tensors=None, block_sparse_tensors_bwd=None, return_lse=False, gather_bwd_recompute_p=False, "
    "gather_bwd_token_chunk=None",
    "flash_attn_varlen_func": "q, k, v, qv=None, cu_seqlens_q=None, cu_seqlens_k=None, max_seqlen_q=None, "
    "max_seqlen_k=None, min_seqlen_k=None, seqused_q=None, seqused_k=None, gather_kv_indices=None, page_table=None, "
    + _OPTIONS
    + "block_sparse_tensors=None, aux_tensors=None, aux_scalars=None, return_lse=False, scheduler_metadata=None, "
    "seqlen_k_per_split=None, disable_scheduler_metadata=False, gather_bwd_recompute_p=False, "
    "gather_bwd_token_chunk=None",
}
_INTERFACE = "flash_attn.cute.interface"


def answer(given: Dict[str, Any], out: Any, q: Any, v: Any, trains: bool) -> Any:
    """Always two things: an output without gaps, bfloat16 for float8, and a log-sum-exp where one is needed."""
    import torch

    room = q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=torch.bfloat16 if v.element_size() == 1 else q.dtype)
    room.copy_(out)
    if not (trains or given.get("return_lse")):
        return room, None
    shape = (q.shape[0], q.shape[2], q.shape[1]) if q.dim() == 4 else (q.shape[1], q.shape[0])
    return room, q.new_zeros(shape, dtype=torch.float32)


def run(attention: Any, given: Dict[str, Any]) -> Any:
    import torch

    from . import stand_in

    operands = given["q"], given["k"], given["v"]
    sink = given.get("learnable_sink")
    trains = any(one.requires_grad for one in (*operands, *([sink] if sink is not None else [])))
    causal, scale = bool(given.get("causal")), given.get("softmax_scale")

    def arithmetic(q: Any, k: Any, v: Any) -> Any:
        ends = given.get("cu_seqlens_q"), given.get("cu_seqlens_k")
        if all(one is not None for one in ends):
            return stand_in.packed_attention(q, k, v, *ends, causal, scale)
        if given.get("page_table") is not None or q.dim() != 4 or k.dim() != 4:
            return torch.zeros_like(q)[..., :1].expand(*q.shape[:-1], v.shape[-1])
        return stand_in.attention(q, k, v, causal, scale)

    def answered(out: Any, q: Any, k: Any, v: Any) -> Any:
        return answer(given, out, q, v, trains)

    return stand_in.run(attention, arithmetic, answered, operands)


def modules(attention: Any, meet: Any, version: str) -> Dict[str, Callable[[Any], None]]:
    """Module name -> what fills it. `meet(name, where, given, args, kwargs, frame, run)` judges a call and runs it."""
    from .signatures import function

    def met(name: str, given: Any, args: Any, kwargs: Any, frame: Any) -> Any:
        return meet(name, "flash_attn.cute", given, args, kwargs, frame, lambda: run(attention, given))

    def cute(module: Any) -> None:
        module.__path__ = []
        for name, words in PARAMETERS.items():
            setattr(module, name, function(name, words, _INTERFACE, functools.partial(met, name)))

    return {"flash_attn.cute": cute, "flash_attn.cute.interface": cute}
