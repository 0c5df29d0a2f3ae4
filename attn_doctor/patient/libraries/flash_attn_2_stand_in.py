"""The stand-in for FlashAttention 2: the signatures of each release, and the return values of its functions.

Sources: those of flash_attn_2.py.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

from .contract import release_of

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from torch import Tensor

    from ..arguments import Given, Keywords, Positional
    from .library import Attention, Fill, Meet

_SINCE = (
    ("window_size=(-1, -1)", (2, 3, 0)),
    ("softcap=0.0", (2, 6, 0)),
    ("alibi_slopes=None", (2, 4, 0)),
    ("deterministic=False", (2, 4, 1)),
)
"""Parameters that every function has in this order, and the release that added them."""

_OPERANDS = {
    "flash_attn_func": "q, k, v",
    "flash_attn_qkvpacked_func": "qkv",
    "flash_attn_kvpacked_func": "q, kv",
    "flash_attn_varlen_func": "q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k",
    "flash_attn_varlen_qkvpacked_func": "qkv, cu_seqlens, max_seqlen",
    "flash_attn_varlen_kvpacked_func": "q, kv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k",
}
_WITH_CACHE = (
    ("q, k_cache, v_cache, k=None, v=None", (2, 2, 0)),
    ("rotary_cos=None, rotary_sin=None", (2, 2, 3)),
    ("cache_seqlens=None", (2, 2, 0)),
    ("cache_batch_idx=None", (2, 3, 1)),
    ("cache_leftpad=None", (2, 6, 1)),
    ("block_table=None", (2, 5, 0)),
    ("softmax_scale=None, causal=False", (2, 2, 0)),
    ("window_size=(-1, -1)", (2, 3, 0)),
    ("softcap=0.0", (2, 6, 0)),
    ("rotary_interleaved=True", (2, 2, 3)),
    ("alibi_slopes=None", (2, 4, 0)),
    ("num_splits=0", (2, 2, 0)),
    ("return_softmax_lse=False", (2, 6, 0)),
)


def parameters(release: Tuple[int, ...]) -> Dict[str, str]:
    """Functions of a release, with their parameters."""
    options = ["dropout_p=0.0, softmax_scale=None, causal=False"]
    options += [one for one, since in _SINCE if release >= since]
    options += ["return_attn_probs=False"]
    table = {name: ", ".join((operands, *options)) for name, operands in _OPERANDS.items()}
    if release >= (2, 5, 7):
        table["flash_attn_varlen_func"] += ", block_table=None"
    if release >= (2, 2, 0):
        table["flash_attn_with_kvcache"] = ", ".join(one for one, since in _WITH_CACHE if release >= since)
    return table


def answer(name: str, given: Given, release: Tuple[int, ...], out: Tensor, q: Tensor, k: Tensor) -> Any:
    """The return value of a function for the output `out`, with the strides that its kernel allocates.

    q and k: as the kernel receives them, (batch, length, heads, dim) or packed (tokens, heads, dim).
    """
    import torch

    from .stand_in import filled

    wanted = given.get("return_attn_probs") or given.get("return_softmax_lse")
    packed = q.dim() == 3
    handed_over = _handed_over(q)
    heads, kv_heads = q.shape[-2], k.shape[-2]
    queries: Any = given.get("max_seqlen_q", given.get("max_seqlen")) if packed else q.shape[1]
    grouped = _one_query_of_many_heads(given, release, packed, queries, q, kv_heads)
    if grouped:
        # In this case the query heads that share a k and v become queries.
        share = heads // kv_heads
        split = handed_over.reshape(-1, kv_heads, share, q.shape[-1]).transpose(1, 2)
        if packed:
            split = split.reshape(-1, kv_heads, q.shape[-1])
            room = torch.empty_like(split).reshape(-1, share, kv_heads, q.shape[-1]).transpose(1, 2)
        else:
            room = torch.empty_like(split).transpose(1, 2)
        room = room.reshape(q.shape)
    else:
        room = torch.empty_like(handed_over)
    out = filled(room, out)
    if not wanted:
        return out
    if not packed:
        shape: Tuple[Any, ...] = (q.shape[0], heads, q.shape[1])
    elif release >= (2, 6, 0):
        shape = (heads, q.shape[0])
    else:
        shape = (_sequences(given), heads, int(queries))
    lse = q.new_zeros(shape, dtype=torch.float32)
    if "return_attn_probs" not in given:
        return out, lse
    return out, lse, _probabilities(given, release, packed, q, k)


def _handed_over(q: Tensor) -> Tensor:
    """q as the C++ code allocates by it: head dimensions are multiples of 8, the last stride is 1."""
    import torch

    if q.shape[-1] % 8:
        q = torch.nn.functional.pad(q, [0, 8 - q.shape[-1] % 8])
    return q if q.stride(-1) == 1 else q.contiguous()


def _one_query_of_many_heads(
    given: Given, release: Tuple[int, ...], packed: bool, queries: object, q: Tensor, kv_heads: int
) -> bool:
    since = (2, 5, 6) if packed else (2, 3, 0)
    plain = tuple(given.get("window_size", (-1, -1))) == (-1, -1) and not given.get("dropout_p")
    without_slopes = given.get("alibi_slopes") is None and q.shape[-1] % 8 == 0
    return release >= since and queries == 1 and q.shape[-2] > kv_heads and plain and without_slopes


def _sequences(given: Given) -> int:
    starts = given["cu_seqlens_q"] if "cu_seqlens_q" in given else given["cu_seqlens"]
    return int(starts.shape[0]) - 1


def _probabilities(given: Given, release: Tuple[int, ...], packed: bool, q: Tensor, k: Tensor) -> object:
    """The third return value: useful only with dropout, otherwise empty or None."""
    if not given.get("dropout_p"):
        return q.new_empty(0) if release >= (2, 7, 0) else None
    if packed:
        longest: Tuple[Any, Any] = (
            given.get("max_seqlen_q", given.get("max_seqlen")),
            given.get("max_seqlen_k", given.get("max_seqlen")),
        )
        batch = _sequences(given)
    else:
        longest, batch = (q.shape[1], k.shape[1]), q.shape[0]
    rounded = [-(-int(length) // 128) * 128 for length in longest]
    return q.new_zeros((batch, q.shape[-2], *rounded))


def gradient_like(operand: Tensor) -> Tensor:
    """A gradient as the backward kernel allocates it: for packed operands, contiguous."""
    import torch

    dim = operand.shape[-1]
    if dim % 8 == 0 and operand.stride(-1) == 1:
        return torch.empty_like(operand)
    return torch.empty_like(_handed_over(operand))[..., :dim]


def packed_gradient_like(operand: Tensor) -> Tensor:
    dim = operand.shape[-1]
    return operand.new_empty((*operand.shape[:-1], -(-dim // 8) * 8))[..., :dim]


def split(name: str, operands: Tuple[Tensor, ...]) -> Tuple[Tensor, Tensor, Tensor]:
    """q, k and v from the operands of a function, without copies."""
    if "qkvpacked" in name:
        q, k, v = operands[0].unbind(-3)
        return q, k, v
    if "kvpacked" in name:
        return (operands[0], *operands[1].unbind(-3))
    return operands[0], operands[1], operands[2]


def run(attention: Attention, name: str, given: Given, release: Tuple[int, ...]) -> Any:
    """Runs one call of a function that is not installed."""
    from . import stand_in

    causal, scale = bool(given.get("causal")), given.get("softmax_scale")
    if "with_kvcache" in name:
        return _with_cache(attention, name, given, release)
    operands = tuple(given[one] for one in ("qkv", "q", "k", "v", "kv") if one in given)

    def arithmetic(*operands: Tensor) -> Tensor:
        q, k, v = split(name, operands)
        if "varlen" not in name:
            return stand_in.attention(q, k, v, causal, scale)
        if given.get("block_table") is not None:
            return stand_in.zeros(q, k, v)  # pages are not gathered: only dtype and shape are needed
        ends = given.get("cu_seqlens_q", given.get("cu_seqlens")), given.get("cu_seqlens_k", given.get("cu_seqlens"))
        return stand_in.packed_attention(q, k, v, *ends, causal, scale)

    def answered(out: Tensor, *operands: Tensor) -> object:
        q, k, _ = split(name, operands)
        return answer(name, given, release, out, q, k)

    def like(operand: Tensor) -> Tensor:
        packed = "packed" in name and operand.dim() > (3 if "varlen" in name else 4)
        return packed_gradient_like(operand) if packed else gradient_like(operand)

    return stand_in.run(attention, arithmetic, answered, operands, like)


def _with_cache(attention: Attention, name: str, given: Given, release: Tuple[int, ...]) -> object:
    """Has no backward pass."""
    import torch

    from . import stand_in

    for cache in ("k_cache", "v_cache"):
        if given[cache].stride(-1) != 1:
            raise AssertionError(cache + " must have contiguous last dimension")
    q, k, v = given["q"], given["k_cache"], given["v_cache"]

    def arithmetic(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if given.get("block_table") is not None:
            return torch.zeros_like(q)
        if given.get("k") is not None:
            k, v = torch.cat([k, given["k"]], 1), torch.cat([v, given["v"]], 1)
        return stand_in.attention(q, k, v, bool(given.get("causal")), given.get("softmax_scale"))

    def answered(out: Tensor, q: Tensor, k: Tensor, v: Tensor) -> object:
        return answer(name, given, release, out, q, k)

    return stand_in.run_without_gradients(attention, arithmetic, answered, (q, k, v))


def modules(attention: Attention, meet: Meet, version: str) -> Dict[str, Fill]:
    """Module name -> function that fills it. `meet(name, where, given, args, kwargs, frame, run)` judges a call and
    runs it.
    """
    from .signatures import function

    release = release_of(version)
    where = "flash_attn.flash_attn_interface"

    def interface(module: ModuleType) -> None:
        for name, words in parameters(release).items():
            setattr(module, name, function(name, words, where, functools.partial(_met, name)))

    def _met(name: str, given: Given, args: Positional, kwargs: Keywords, frame: FrameType) -> object:
        return meet(name, where, given, args, kwargs, frame, lambda: run(attention, name, given, release))

    def package(module: ModuleType) -> None:
        module.__path__ = []
        vars(module)["__version__"] = version
        interface(module)

    def padding(module: ModuleType) -> None:
        for helper in (pad_input, unpad_input, index_first_axis):
            setattr(module, helper.__name__, helper)

    def layers(module: ModuleType) -> None:
        module.__path__ = []

    def rotary(module: ModuleType) -> None:
        turn = _rotary(release)
        vars(module).update(apply_rotary_emb=turn, apply_rotary_emb_func=turn)

    return {
        "flash_attn": package,
        "flash_attn.flash_attn_interface": interface,
        "flash_attn.bert_padding": padding,
        "flash_attn.layers": layers,
        "flash_attn.layers.rotary": rotary,
    }


def index_first_axis(x: Tensor, indices: Tensor) -> Tensor:
    return x[indices]


def unpad_input(
    hidden_states: Tensor, attention_mask: Tensor, unused_mask: Optional[Tensor] = None
) -> Tuple[Tensor, Tensor, Tensor, int, Tensor]:
    """(batch, len, ...) -> (tokens, ...), indices, cu_seqlens, max_seqlen, seqused."""
    import torch

    every = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = every.sum(dim=-1, dtype=torch.int32)
    used = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(every.flatten(), as_tuple=False).flatten()
    starts = torch.nn.functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    flat = hidden_states.reshape(-1, *hidden_states.shape[2:])
    return flat[indices], indices, starts, int(lengths.max()), used


def pad_input(hidden_states: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
    import torch

    out = torch.zeros(batch * seqlen, *hidden_states.shape[1:], dtype=hidden_states.dtype)
    out[indices] = hidden_states
    return out.view(batch, seqlen, *hidden_states.shape[1:])


def _rotary(release: Tuple[int, ...]) -> Callable[..., Tensor]:
    def apply_rotary_emb(
        x: Tensor,
        cos: Tensor,
        sin: Tensor,
        interleaved: bool = False,
        inplace: bool = False,
        seqlen_offsets: object = 0,
        cu_seqlens: object = None,
        max_seqlen: object = None,
        conjugate: bool = False,
    ) -> Tensor:
        import torch

        if release < (2, 8) and x.dtype != cos.dtype:
            raise AssertionError("Input and cos/sin must have the same dtype, got {} and {}".format(x.dtype, cos.dtype))
        half = cos.shape[-1]
        rotated, rest = x[..., : 2 * half], x[..., 2 * half :]
        first, second = rotated[..., :half], rotated[..., half:]
        length = x.shape[-3]
        c, s = (t[:length].unsqueeze(-2).to(x.dtype) for t in (cos, sin))
        return torch.cat((first * c - second * s, second * c + first * s, rest), dim=-1)

    return apply_rotary_emb
