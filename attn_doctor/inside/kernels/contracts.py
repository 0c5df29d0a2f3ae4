"""What each kernel leaves out by its own contract, in its own words where it has any: that is no failure.

Each function gives the reason why a cell is not offered, or None. Sources: torch's as ../virtual_gpu/sdpa_choice.py
names them; Dao-AILab/flash-attention csrc/flash_attn/flash_api.cpp, hopper/flash_api.cpp and
flash_attn/cute/interface.py (tag 2.8.3); pytorch torch/nn/attention/flex_attention.py; facebookresearch/xformers
xformers/ops/fmha; NVIDIA/TransformerEngine transformer_engine/pytorch/attention; fla-org/flash-linear-attention
fla/ops. Reads no GPU and needs no torch.
"""

from __future__ import annotations

import re
from typing import Optional, Tuple

from ..virtual_gpu import gpus, sdpa_backends, sdpa_choice
from ..virtual_gpu.sdpa_rules import Asked, Call, Tensor
from ..virtual_gpu.triton_driver import version_of
from .cells import EIGHT_BITS, HALVES, Cell, Place

Reason = Optional[str]

OWN_WORDS = (
    "invalid dtype for bias - should match query's dtype",
    "This flash attention build does not support",
    "This flash attention build only supports",
    "only supports Hopper GPUs (SM90)",
)
"""With which a kernel says when it is called that it does not offer this. Which one torch picks, switches decide; what
a FlashAttention-3 leaves out, who built it (FLASHATTENTION_DISABLE_…), and nothing but a call tells."""

_NO_SDPA_FORM = {
    "varlen": "scaled_dot_product_attention takes no packed sequences",
    "window": "scaled_dot_product_attention has no window argument; a mask does it",
    "softcap": "scaled_dot_product_attention has no softcap argument",
}
_SDPA_JUDGES = {
    "sdpa-flash": sdpa_backends.flash,
    "sdpa-efficient": sdpa_backends.efficient,
    "sdpa-cudnn": sdpa_backends.cudnn,
}
LINEAR_HEAD_DIMS = {
    "fla-gated-delta-rule": (128, 64),
    "fla-gla": (64,),
    "fla-gsa": (64,),
    "fla-rwkv7": (64,),
}
_MASKS = ("bool-mask", "half-mask", "fp32-mask")


def sdpa_call(cell: Cell, sizes: Tuple[int, int, int]) -> Call:
    """The cell's call of scaled_dot_product_attention."""
    batch, heads, length = sizes
    trains = cell.direction == "train"
    kv_heads = max(1, heads // 4) if cell.form == "gqa" else heads

    def tensor(count: int) -> Tensor:
        return Tensor(shape=(batch, count, length, cell.head_dim), dtype=cell.dtype, requires_grad=trains)

    dtype = {"bool-mask": "bool", "half-mask": cell.dtype, "fp32-mask": "float32"}.get(cell.form)
    return Call(
        query=tensor(heads),
        key=tensor(kv_heads),
        value=tensor(kv_heads),
        mask=Tensor(shape=(1, 1, length, length), dtype=dtype) if dtype else None,
        causal=cell.form in ("causal", "gqa"),
        enable_gqa=cell.form == "gqa",
        grad_mode=trains,
    )


def gpu_of(place: Place) -> gpus.Gpu:
    # Shared memory decides nothing about SDPA, and a new capability need not be in the table.
    return gpus.Gpu(name=place.gpu_name, capability=place.capability or (0, 0), shared_memory=0)


def sdpa(cell: Cell, place: Place) -> Reason:
    """scaled_dot_product_attention, by one backend or by whichever torch picks."""
    refused = own(cell, place)
    if refused is not None:
        return refused
    call = sdpa_call(cell, (2, 8, 512))
    version = version_of(place.torch_version)
    error = sdpa_choice.unfit(call, version)
    if error is not None:
        return error
    if place.capability is None:
        return None if cell.backend in ("sdpa-default", "sdpa-math", "sdpa-flash") else "it is a backend for GPUs"
    if cell.form == "gqa" and version < (2, 5):
        return "enable_gqa is new in torch 2.5"
    if cell.backend == "sdpa-default":
        choice = sdpa_choice.choose(call, gpu_of(place), place.torch_version, place.cudnn)
        late = [words.partition(": ")[2] for words in choice.warnings if words.startswith("raises afterwards")]
        return late[0] if late else None
    if cell.backend == "sdpa-math":
        return None
    asked = Asked(call, gpu_of(place), version, place.cudnn or sdpa_choice.wheel_cudnn(version), [])
    reason = _SDPA_JUDGES[cell.backend](asked)
    if reason is None and cell.backend == "sdpa-efficient" and cell.form == "fp32-mask" and cell.dtype in HALVES:
        return OWN_WORDS[0]
    return reason


def _dtype_and_gpu(cell: Cell, place: Place, dtypes: Tuple[str, ...], oldest: Tuple[int, int], words: str) -> Reason:
    if place.capability is None or place.capability < oldest:
        return "it needs compute capability {}.{} or later".format(*oldest)
    return None if cell.dtype in dtypes else words


def flash_attn_2(cell: Cell, place: Place) -> Reason:
    release = _release(place.versions.get("flash-attn"))
    if place.capability is None or place.capability < (8, 0):
        return "FlashAttention only supports Ampere GPUs or newer."
    if cell.dtype not in HALVES:
        return "FlashAttention only support fp16 and bf16 data type"
    if cell.form in _MASKS:
        return "flash_attn_func takes no mask"
    if cell.form == "softcap" and release < (2, 6):
        return "softcap is new in flash-attn 2.6"
    if cell.form == "window" and release < (2, 3):
        return "window_size is new in flash-attn 2.3"
    strong = place.capability in ((8, 0), (9, 0))
    if cell.direction == "train" and release < (2, 5, 5) and cell.head_dim > 192 and not strong:
        return "FlashAttention backward for head dim > 192 requires A100/A800 or H100/H800"
    return None


def flash_attn_3(cell: Cell, place: Place) -> Reason:
    allowed = (*HALVES, "float8_e4m3fn") if cell.direction == "forward" else HALVES
    words = "FlashAttention only supports fp16, bf16, and fp8_e4m3 data type"
    if cell.dtype == EIGHT_BITS and cell.direction == "train":
        words = "float8 is for its forward pass: FlashAttention only support fp16 and bf16 data type"
    elif place.capability is not None and place.capability < (9, 0):
        allowed, words = HALVES, "FlashAttention on Ampere/Ada cards only supports fp16 and bf16 data type"
    reason = _dtype_and_gpu(cell, place, allowed, (8, 0), words)
    if reason is None and place.capability > (9, 0):
        return "it has kernels for compute capability 8.x and 9.0"
    return reason or ("flash_attn_func takes no mask" if cell.form in _MASKS else None)


def flash_attn_4(cell: Cell, place: Place) -> Reason:
    majors = (9, 10, 11, 12) if cell.direction == "train" else (8, 9, 10, 11, 12)
    if place.capability is None or place.capability[0] not in majors:
        return "Unsupported compute capability. Supported: 8.x, 9.x, 10.x, 11.x, 12.x"
    if cell.dtype == EIGHT_BITS:
        on_blackwell = place.capability[0] == 10 and cell.direction == "forward"
        return "flash_attn_func takes no scales" if on_blackwell else "FP8 is only supported on SM100, forward only"
    if cell.dtype not in HALVES:
        return "inputs must be float16, bfloat16, fp8 e4m3fn, or fp8 e5m2"
    if place.capability[0] in (10, 11) and cell.head_dim == 192:
        return "head_dim and head_dim_v must be between 8 and 128, or (192, 128) for DeepSeek, or (256, 256) for hd256."
    return "flash_attn_func takes no mask tensor" if cell.form in _MASKS else None


def flex(cell: Cell, place: Place) -> Reason:
    version = version_of(place.torch_version)
    if version < (2, 5):
        return "flex_attention is new in torch 2.5"
    if cell.dtype.startswith("float8"):
        return "flex_attention takes no float8"
    if cell.form == "half-mask" and cell.dtype not in HALVES:
        return "a mask in half precision goes with a query in half precision"
    if version < (2, 7) and cell.head_dim & (cell.head_dim - 1):
        return "NYI: embedding dimension must be a power of 2"
    return None


def xformers(cell: Cell, place: Place) -> Reason:
    if cell.dtype.startswith("float8"):
        return "memory_efficient_attention takes no float8"
    if cell.form == "bool-mask":
        return "attn_bias is no boolean mask"
    if cell.form == "softcap":
        return "memory_efficient_attention has no softcap argument"
    if cell.form == "half-mask" and cell.dtype not in HALVES:
        return "a mask in half precision goes with a query in half precision"
    if cell.form == "fp32-mask" and cell.dtype != "float32":
        return "invalid dtype for bias - should match query's dtype"
    if cell.form == "gqa" and cell.direction == "train":
        return "MQA/GQA is an experimental feature supported only for the forward pass."
    if cell.form == "window" and cell.dtype == "float32" and cell.direction == "train":
        bias = "LowerTriangularFromBottomRightLocalAttentionMask"
        return "cutlassB, its one operator for float32, takes no bias of type " + bias
    needs_cutlass = cell.dtype == "float32" or cell.form in _MASKS
    if needs_cutlass and place.capability is not None and place.capability > (9, 0):
        return "cutlassF requires device with capability <= (9, 0)"
    return None


def transformer_engine(cell: Cell, place: Place) -> Reason:
    reason = _dtype_and_gpu(cell, place, HALVES, (8, 0), "DotProductAttention only supports FP16 and BF16 data types")
    if reason is None and cell.form in ("half-mask", "fp32-mask", "softcap"):
        return "DotProductAttention takes no such mask or cap"
    return reason


def fla(cell: Cell, place: Place) -> Reason:
    """Pinned configurations for each of its kernels: the head dims that published models have, a whole sequence."""
    if cell.form != "causal":
        return "linear attention is causal and takes no mask"
    if cell.dtype not in HALVES:
        return "its chunked kernels do not support float32; bfloat16 is asked for"
    pinned = LINEAR_HEAD_DIMS[cell.backend]
    words = " and ".join(str(dim) for dim in pinned)
    return None if cell.head_dim in pinned else "pinned configurations are run: head dim {}".format(words)


def own_words(message: str) -> Optional[str]:
    """The part of a kernel's message with which it says that it does not offer the call, or None."""
    for words in OWN_WORDS:
        _, found, rest = message.partition(words)
        if found:
            return words + (rest.splitlines() or [""])[0]
    return None


def _release(text: Optional[str]) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", (text or "99").split("+")[0])[:3])


def own(cell: Cell, place: Place) -> Reason:
    """A function with the arguments of scaled_dot_product_attention: what it refuses is for it to say."""
    if cell.form in _NO_SDPA_FORM:
        return _NO_SDPA_FORM[cell.form]
    if cell.dtype.startswith("float8"):
        return "scaled_dot_product_attention takes no float8"
    if cell.form == "half-mask" and cell.dtype not in HALVES:
        return "a mask in half precision goes with a query in half precision"
    return None
