"""The limits of torch's three fused attention backends, with torch's own messages.

`flash`, `efficient` and `cudnn` return the first reason why a backend cannot take a call, or None; constraints are in
torch's order, since it decides which reason is shown. `math` is never refused: it is called, and may raise.
"""

from __future__ import annotations

from typing import Tuple

from ...dtypes import HALVES
from .rules import (
    Call,
    Reason,
    Situation,
    batch_and_heads,
    dotted,
    dtypes,
    first,
    four_dimensional,
    last_strides,
    lengths,
    low_precision,
    sm_range,
)

# ---------------------------------------------------------------------------------------------------------------
# FlashAttention


def _no_mask(asked: Situation) -> Reason:
    return "Flash Attention does not support non-null attn_mask." if asked.call.mask is not None else None


def _flash_head_dim(asked: Situation) -> Reason:
    dims = [tensor.shape[-1] for tensor in asked.call.tensors]
    if dims[0] == dims[1] == dims[2] and dims[0] <= 256:
        return None
    return (
        "Flash attention requires q,k,v to have the same last dimension and to be less than or equal to 256. "
        f"Got Query.size(-1): {dims[0]}, Key.size(-1): {dims[1]}, Value.size(-1): {dims[2]} instead."
    )


def _flash_training(asked: Situation) -> Reason:
    capability, head_dim = asked.gpu.capability, asked.call.query.shape[-1]
    small = (8, 6) <= capability <= (8, 9)
    if (12, 0) <= capability <= (12, 1):
        if asked.version in ((2, 7), (2, 8)) and head_dim > 192 and asked.call.trains:
            asked.doubts.append("whether the training limit of 8.6 to 8.9 held for 12.x before 2.9 is UNVERIFIED")
        small = small or asked.version >= (2, 9)
    if not (small and asked.call.trains):
        return None
    if head_dim <= 192 or (head_dim > 224 and not asked.call.dropout):
        return None
    return (
        "Flash attention currently doesn't support training with head_dim ∈ (192, 224] or "
        "(head_dim ∈ (224, 256] and dropout > 0.0) on gpu architectures in the range[sm86, sm89]."
        f"Attempting to run with dropout set to: {asked.call.dropout:g}and head_dim: {head_dim} on a sm "
        f"{capability[0]}.{capability[1]} gpu."
    )


def _flash_causal(asked: Situation) -> Reason:
    lengths = asked.call.query.shape[-2], asked.call.key.shape[-2]
    if not asked.call.causal or lengths[0] == lengths[1]:
        return None
    return (
        "Flash attention does not support the is_causal flag when seqlen_q != seqlen_k. "
        f"Got seqlen_q: {lengths[0]} seqlen_k: {lengths[1]}. If you would like to use causal attention with "
        "non-square masks, please see CausalAttnMask."
    )


def flash(asked: Situation) -> Reason:
    if asked.version < (2, 4):
        asked.doubts.append(f"the constraints of torch {dotted(asked.version)} were not read; those of 2.4 are taken")
    return first(
        asked,
        four_dimensional,
        _no_mask,
        _flash_head_dim,
        sm_range((8, 0), "Flash attention"),
        _flash_training,
        _flash_causal,
        dtypes(low_precision),
        batch_and_heads(lambda asked: asked.version >= (2, 5)),
        lengths,
        last_strides(ignore_one=True),
    )


# ---------------------------------------------------------------------------------------------------------------
# The memory-efficient kernel


def _alignment(asked: Situation) -> int:
    """Required divisor of the head dims: the number of elements that a GEMM loads at once on that GPU."""
    major, half = asked.gpu.capability[0], asked.call.query.dtype in HALVES
    alignment = 4 if major >= 8 else 1
    if major >= 8 or (major == 7 and half):
        alignment = max(alignment, 8 if half else 4)
    return alignment


def _efficient_head_dim(asked: Situation) -> Reason:
    query, key, value = (tensor.shape[-1] for tensor in asked.call.tensors)
    alignment = _alignment(asked)
    if query == key and query % alignment == 0 and query > 0 and value % alignment == 0 and value > 0:
        return None
    return (
        f"Mem efficient attention requires last dimension of inputs to be divisible by {alignment}. "
        f"Got Query.size(-1): {query}, Key.size(-1): {key}, Value.size(-1): {value} instead."
    )


def _efficient_offsets(asked: Situation) -> Reason:
    """On main in August 2026; before, such a call led to a misaligned address or a copy."""
    if asked.gpu.capability[0] < 8:
        return None
    size = 2 if asked.call.query.dtype in HALVES else 4
    wanted = _alignment(asked) * size
    off = [tensor.storage_offset * size % wanted for tensor in asked.call.tensors]
    if not any(off):
        return None
    if asked.version < (2, 15):
        asked.doubts.append("from which release on a misaligned storage offset is refused is UNVERIFIED")
        return None
    return (
        "Mem efficient attention on sm80 or newer requires q, k, and v storage offsets * element_size to be aligned "
        f"to {wanted} bytes. Got query.storage_offset() * element_size % alignment_bytes: {off[0]}, "
        f"key.storage_offset() * element_size % alignment_bytes: {off[1]}, "
        f"value.storage_offset() * element_size % alignment_bytes: {off[2]}."
    )


def _efficient_gqa(asked: Situation) -> bool:
    """False in 2.9.1 and in 2.11 (run on an H200), True on main in August 2026; the releases in between were not
    read.
    """
    if not asked.call.enable_gqa or asked.version < (2, 12):
        return False
    asked.doubts.append("from which release on the memory-efficient kernel takes enable_gqa is UNVERIFIED (2.11: no)")
    return asked.version >= (2, 14)


def _efficient_dtypes(asked: Situation) -> Tuple[str, ...]:
    return ("float16", "float32", "bfloat16") if asked.gpu.capability[0] >= 8 else ("float16", "float32")


def efficient(asked: Situation) -> Reason:
    return first(
        asked,
        sm_range((5, 0), "Mem Efficient Attention"),
        four_dimensional,
        _efficient_head_dim,
        _efficient_offsets,
        lengths,
        last_strides(ignore_one=False),
        batch_and_heads(_efficient_gqa),
        dtypes(_efficient_dtypes),
    )


# ---------------------------------------------------------------------------------------------------------------
# cuDNN


def _cudnn_mask(asked: Situation) -> Reason:
    mask = asked.call.mask
    if mask is None:
        return None
    if mask.requires_grad:
        return "attn_mask requires grad"  # torch refuses without a message
    (batch, heads, q_len, _), kv_len = asked.call.query.shape, asked.call.key.shape[2]
    fits = len(mask.shape) >= 2 and mask.shape[-2] in (1, q_len) and mask.shape[-1] in (1, kv_len)
    if len(mask.shape) == 4:
        fits = fits and mask.shape[0] in (1, batch) and mask.shape[1] in (1, heads)
    if fits and len(mask.shape) in (2, 4):
        return None
    return (
        "Please use the following attn mask shapes: 2d - ({Q_seq_len, 1}  x {KV_seq_len, 1}); "
        "4d - ({Batch, 1} x {Num_heads, 1} x {Q_seq_len, 1}  x {KV_seq_len, 1})"
    )


def _cudnn_head_dim_limit(asked: Situation) -> int:
    hopper_or_blackwell = asked.gpu.capability == (9, 0) or asked.gpu.capability[0] == 10
    query, value = asked.call.query.shape[-1], asked.call.value.shape[-1]
    if asked.version < (2, 9) or not hopper_or_blackwell or max(query, value) <= 128:
        return 128
    if asked.version < (2, 15):
        # 2.9.1 as read; 2.11 as run on an H200, with cuDNN 9.19.
        hopper = asked.gpu.capability == (9, 0)
        if asked.version > (2, 11) or not (hopper or asked.version == (2, 9)):
            asked.doubts.append(f"cuDNN's head dim limit in torch {dotted(asked.version)} there is UNVERIFIED")
        return 256 if hopper and (asked.cudnn or 0) >= 91000 else 128
    if (asked.cudnn or 0) > 92200:
        return 256
    return 192 if (query, value) == (192, 128) and (asked.cudnn or 0) >= 91100 else 128


def _cudnn_shapes(asked: Situation) -> Reason:
    query, key, value = (tensor.shape for tensor in asked.call.tensors)
    limit = _cudnn_head_dim_limit(asked)
    if query[3] > limit or value[3] > limit:
        return f"head_dim should be no more than {limit}"
    if query[3] % 8 or value[3] % 8:
        return "head_dim should be a multiple of 8"
    if asked.version < (2, 9):
        if query[2] == 1 or key[2] == 1:
            return "cudnn SDPA does not support sequence length 1."
    elif key[2] == 1:
        return "cudnn SDPA does not support key/value sequence length 1."
    return None


def _cudnn_dropout(asked: Situation) -> Reason:
    if asked.call.dropout > 0 and asked.cudnn is not None and 91100 < asked.cudnn < 91400:
        return f"{asked.cudnn} cuDNN version does not support droppout in SDPA (9.11 - 9.13)."
    if (asked.call.dropout * 16) % 1:
        if asked.version < (2, 12):
            return None
        if asked.version < (2, 14):
            asked.doubts.append("from which release on cuDNN's dropout must be a multiple of 1/16 is UNVERIFIED")
            return None
        return (
            "cuDNN dropout probability resolution is limited to 1/16."
            "Use a dropout probability that is a multiple of 1/16 to select the cuDNN backend"
        )
    return None


def cudnn(asked: Situation) -> Reason:
    if asked.version < (2, 4):
        return "Torch was not compiled with cuDNN attention."
    if asked.version < (2, 9):
        return first(
            asked,
            lengths,
            last_strides(ignore_one=True),
            four_dimensional,
            _cudnn_shapes,
            dtypes(low_precision),
            _cudnn_mask,
            sm_range((8, 0), "cuDNN MHA"),
        )
    return first(
        asked,
        four_dimensional,
        dtypes(low_precision),
        _cudnn_mask,
        sm_range((8, 0), "cuDNN MHA"),
        _cudnn_dropout,
        lengths,
        last_strides(ignore_one=True),
        batch_and_heads(lambda asked: True, same_kv=False),
        _cudnn_shapes,
    )


# ---------------------------------------------------------------------------------------------------------------
# The fallback made of torch's own operators


def math(call: Call) -> Reason:
    """The error that torch's math implementation raises for a call: observed on the CPU with torch 2.13."""
    if call.mask is not None and call.causal:
        # The fused backends do not check this, although it is documented.
        return "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
    shapes = [tensor.shape for tensor in call.tensors]
    if {len(shape) for shape in shapes} != {4}:
        return None
    heads = [shape[1] for shape in shapes]
    if call.enable_gqa and (heads[0] % heads[1] or heads[0] % heads[2]):
        return "Number of heads in key and value must divide the number of heads in query"
    for dimension in (0, 1) if not call.enable_gqa else (0,):
        wide = [shape[dimension] for shape in shapes]
        for other in wide[1:]:
            if other != wide[0] and 1 not in (wide[0], other):
                return (
                    f"The size of tensor a ({wide[0]}) must match the size of tensor b ({other}) at non-singleton "
                    f"dimension {dimension}"
                )
    return None
