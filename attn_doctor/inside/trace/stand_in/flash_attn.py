"""flash_attn 2, 3 and 4 without their kernels: the same functions, refusing what the kernels refuse.

Sources: Dao-AILab/flash-attention, flash_attn/flash_attn_interface.py, hopper/flash_attn_interface.py,
flash_attn/cute/interface.py, flash_attn/bert_padding.py (tag 2.8.3).
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Callable, Dict, List

import torch

from ..boundaries import functions
from ..boundaries.roles import Signature
from . import core

_WORDS = "flash_attn {} stand-in: the checks of its kernels, the arithmetic of torch"

_OPTIONS = (
    "dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, "
    "alibi_slopes=None, deterministic=False"
)
_FA2: Dict[str, str] = {
    "flash_attn_func": "q, k, v, {}, return_attn_probs=False".format(_OPTIONS),
    "flash_attn_qkvpacked_func": "qkv, {}, return_attn_probs=False".format(_OPTIONS),
    "flash_attn_kvpacked_func": "q, kv, {}, return_attn_probs=False".format(_OPTIONS),
    "flash_attn_varlen_func": "q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, {}, "
    "return_attn_probs=False, block_table=None".format(_OPTIONS),
    "flash_attn_varlen_qkvpacked_func": "qkv, cu_seqlens, max_seqlen, {}, return_attn_probs=False".format(_OPTIONS),
    "flash_attn_varlen_kvpacked_func": "q, kv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, {}, "
    "return_attn_probs=False".format(_OPTIONS),
    "flash_attn_with_kvcache": "q, k_cache, v_cache, k=None, v=None, rotary_cos=None, rotary_sin=None, "
    "cache_seqlens=None, cache_batch_idx=None, cache_leftpad=None, block_table=None, softmax_scale=None, "
    "causal=False, window_size=(-1, -1), softcap=0.0, rotary_interleaved=True, alibi_slopes=None, "
    "num_splits=0, return_softmax_lse=False",
}
_FA3: Dict[str, str] = {
    "flash_attn_func": "q, k, v, softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, "
    "v_descale=None, window_size=(-1, -1), attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None, "
    "deterministic=False, sm_margin=0, return_attn_probs=False",
    "flash_attn_varlen_func": "q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q=None, "
    "seqused_k=None, softmax_scale=None, causal=False, qv=None, q_descale=None, k_descale=None, "
    "v_descale=None, window_size=(-1, -1), attention_chunk=0, softcap=0.0, num_splits=1, pack_gqa=None, "
    "deterministic=False, sm_margin=0, return_attn_probs=False",
    "flash_attn_qkvpacked_func": "qkv, softmax_scale=None, causal=False, q_descale=None, k_descale=None, "
    "v_descale=None, window_size=(-1, -1), attention_chunk=0, softcap=0.0, deterministic=False, "
    "num_heads_q=None, sm_margin=0, return_attn_probs=False",
    "flash_attn_with_kvcache": "q, k_cache, v_cache, k=None, v=None, qv=None, rotary_cos=None, rotary_sin=None, "
    "cache_seqlens=None, cache_batch_idx=None, cache_leftpad=None, page_table=None, cu_seqlens_q=None, "
    "softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, return_softmax_lse=False",
}
_FA4: Dict[str, str] = {
    "flash_attn_func": "q, k, v, softmax_scale=None, causal=False, window_size=(None, None), "
    "learnable_sink=None, softcap=0.0, pack_gqa=None, deterministic=False",
    "flash_attn_varlen_func": "q, k, v, cu_seqlens_q=None, cu_seqlens_k=None, seqused_q=None, seqused_k=None, "
    "page_table=None, softmax_scale=None, causal=False, window_size=(None, None), learnable_sink=None, "
    "softcap=0.0, pack_gqa=None, deterministic=False",
}


def modules(attention: Any, version: str) -> Dict[str, Callable[[Any], None]]:
    """Module name -> what fills it."""

    def package(module: Any) -> None:
        module.__version__ = version
        module.__path__ = []
        interface(module)

    def interface(module: Any) -> None:
        _fill(module, _FA2, "flash_attn.flash_attn_interface", attention, version, returns_lse=False)

    def hopper(module: Any) -> None:
        module.__path__ = []
        _fill(module, _FA3, "flash_attn_interface", attention, "3", returns_lse=False)

    def cute(module: Any) -> None:
        module.__path__ = []
        _fill(module, _FA4, "flash_attn.cute", attention, "4", returns_lse=True)

    def padding(module: Any) -> None:
        module.pad_input, module.unpad_input, module.index_first_axis = pad_input, unpad_input, index_first_axis

    def layers(module: Any) -> None:
        module.__path__ = []

    def rotary(module: Any) -> None:
        module.apply_rotary_emb = _rotary(version)
        module.apply_rotary_emb_func = module.apply_rotary_emb

    return {
        "flash_attn": package,
        "flash_attn.flash_attn_interface": interface,
        "flash_attn.bert_padding": padding,
        "flash_attn.layers": layers,
        "flash_attn.layers.rotary": rotary,
        "flash_attn.cute": cute,
        "flash_attn.cute.interface": cute,
        "flash_attn_interface": hopper,
    }


def _fill(module: Any, table: Dict[str, str], where: str, attention: Any, version: str, returns_lse: bool) -> None:
    for name, parameters in table.items():
        setattr(module, name, _function(name, parameters, where, attention, version, returns_lse))


def _function(name: str, parameters: str, where: str, attention: Any, version: str, returns_lse: bool) -> Any:
    signature = inspect.signature(eval("lambda {}: None".format(parameters)))  # noqa: S307 - our own table above
    roles = Signature.of(_Signed(signature))
    words = _WORDS.format(version)

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        tensors = functions.tensors_of(roles, name, args, kwargs)
        recorder = attention.recorder

        def run() -> Any:
            return core.quietly(recorder, lambda: _compute(name, given, tensors, returns_lse))

        return attention.attend(
            name,
            where.split(".")[0],
            tensors,
            functions.contract_for(where, attention, given),
            run,
            stand_in=words,
            frame=sys._getframe(1),
        )

    stand_in.__name__ = stand_in.__qualname__ = name
    stand_in.__module__ = where
    stand_in.__signature__ = signature
    stand_in._attn_doctor_original = stand_in
    return stand_in


class _Signed:
    def __init__(self, signature: Any) -> None:
        self.__signature__ = signature

    def __call__(self) -> None:
        return None


def _compute(name: str, given: Dict[str, Any], tensors: Dict[str, Any], returns_lse: bool) -> Any:
    q, k, v = tensors["q"], tensors["k"], tensors["v"]
    causal, scale = bool(given.get("causal")), given.get("softmax_scale")
    if "varlen" in name and given.get("cu_seqlens_q", given.get("cu_seqlens")) is not None:
        out = _varlen(q, k, v, given, causal, scale)
    elif "with_kvcache" in name and given.get("page_table", given.get("block_table")) is not None:
        # Pages are not gathered: dtype and shape are all that is needed of the result.
        out = torch.zeros_like(q)
    else:
        if "with_kvcache" in name and "new_k" in tensors:
            k, v = torch.cat([k, tensors["new_k"]], 1), torch.cat([v, tensors["new_v"]], 1)
        out = core.attention(q, k, v, causal, scale)
    wants = given.get("return_attn_probs") or given.get("return_softmax_lse")
    if not (returns_lse or wants):
        return out
    lse = torch.zeros(q.shape[:-1], dtype=torch.float32, device=q.device)
    return (out, lse, None) if wants and "return_attn_probs" in given and not returns_lse else (out, lse)


def _varlen(q: Any, k: Any, v: Any, given: Dict[str, Any], causal: bool, scale: Any) -> Any:
    starts_q = given.get("cu_seqlens_q", given.get("cu_seqlens"))
    starts_k = given.get("cu_seqlens_k")
    starts_k = starts_q if starts_k is None else starts_k
    try:
        ends_q, ends_k = starts_q.tolist(), starts_k.tolist()
    except Exception:
        # Fake tensors have no values: one sequence stands for all.
        return core.attention(q[None], k[None], v[None], causal, scale)[0]
    parts: List[Any] = []
    for i in range(len(ends_q) - 1):
        part = (t[a[i] : a[i + 1]][None] for t, a in ((q, ends_q), (k, ends_k), (v, ends_k)))
        parts.append(core.attention(*part, causal=causal, scale=scale)[0])
    return torch.cat(parts) if parts else torch.zeros_like(q)


def index_first_axis(x: Any, indices: Any) -> Any:
    return x[indices]


def unpad_input(hidden_states: Any, attention_mask: Any, unused_mask: Any = None) -> Any:
    """(batch, len, ...) -> (tokens, ...), indices, cu_seqlens, max_seqlen, seqused."""
    every = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = every.sum(dim=-1, dtype=torch.int32)
    used = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(every.flatten(), as_tuple=False).flatten()
    starts = torch.nn.functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    flat = hidden_states.reshape(-1, *hidden_states.shape[2:])
    return flat[indices], indices, starts, int(lengths.max()), used


def pad_input(hidden_states: Any, indices: Any, batch: int, seqlen: int) -> Any:
    out = torch.zeros(batch * seqlen, *hidden_states.shape[1:], dtype=hidden_states.dtype)
    out[indices] = hidden_states
    return out.view(batch, seqlen, *hidden_states.shape[1:])


def _rotary(version: str) -> Any:
    release = tuple(int(p) for p in version.split(".")[:2] if p.isdigit())

    def apply_rotary_emb(
        x: Any,
        cos: Any,
        sin: Any,
        interleaved: bool = False,
        inplace: bool = False,
        seqlen_offsets: Any = 0,
        cu_seqlens: Any = None,
        max_seqlen: Any = None,
        conjugate: bool = False,
    ) -> Any:
        if release < (2, 8) and x.dtype != cos.dtype:
            raise AssertionError("Input and cos/sin must have the same dtype, got {} and {}".format(x.dtype, cos.dtype))
        half = cos.shape[-1]
        rotated, rest = x[..., : 2 * half], x[..., 2 * half :]
        first, second = rotated[..., :half], rotated[..., half:]
        length = x.shape[-3]
        c, s = (t[:length].unsqueeze(-2).to(x.dtype) for t in (cos, sin))
        return torch.cat((first * c - second * s, second * c + first * s, rest), dim=-1)

    return apply_rotary_emb
