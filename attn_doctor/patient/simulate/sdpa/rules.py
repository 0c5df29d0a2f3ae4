"""A call of scaled_dot_product_attention, and the constraints shared by torch's fused backends.

Each constraint returns torch's own reason why a call cannot be taken, or None. choice.py names the sources of the
rules. A rule that is not verified for a release is recorded in `Situation.doubts`, and the rule of the nearest release
that was read is used.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, List, Optional, Tuple

from ...dtypes import C10, HALVES, SCALAR_TYPES
from ..cuda.simulated_gpu import Gpu

FLASH = "flash"
EFFICIENT = "efficient"
CUDNN = "cudnn"
MATH = "math"


@dataclasses.dataclass(frozen=True)
class Tensor:
    """Shape (batch, heads, length, head_dim), strides in elements, dtype as in "float16"."""

    shape: Tuple[int, ...]
    dtype: str
    strides: Optional[Tuple[int, ...]] = None
    """None: contiguous."""
    requires_grad: bool = False
    storage_offset: int = 0
    """In elements."""

    @property
    def last_stride(self) -> int:
        return self.strides[-1] if self.strides else 1


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of scaled_dot_product_attention, after autocast."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Optional[Tensor] = None
    causal: bool = False
    dropout: float = 0.0
    enable_gqa: bool = False
    grad_mode: bool = True

    @property
    def tensors(self) -> Tuple[Tensor, Tensor, Tensor]:
        return self.query, self.key, self.value

    @property
    def trains(self) -> bool:
        return self.grad_mode and any(tensor.requires_grad for tensor in self.tensors)


Version = Tuple[int, int]
Reason = Optional[str]


@dataclasses.dataclass(frozen=True)
class Situation:
    call: Call
    gpu: Gpu
    version: Version
    cudnn: Optional[int]
    doubts: List[str]


def dotted(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


# ---------------------------------------------------------------------------------------------------------------
# Constraints shared by several backends. Each returns torch's reason, or None.


def four_dimensional(asked: Situation) -> Reason:
    dims = [len(tensor.shape) for tensor in asked.call.tensors]
    if dims == [4, 4, 4]:
        return None
    return (
        f"All fused kernels requires query, key and value to be 4 dimensional, but got Query dim: {dims[0]}, "
        f"Key dim: {dims[1]}, Value dim: {dims[2]} instead."
    )


def lengths(asked: Situation) -> Reason:
    if asked.call.query.shape[-2] == 0 or asked.call.key.shape[-2] == 0:
        return "All fused kernels do not support zero seq_len_q or seq_len_kv."
    return None


def last_strides(ignore_one: bool) -> Callable[[Situation], Reason]:
    def judge(asked: Situation) -> Reason:
        query, key, value = asked.call.tensors
        mask = asked.call.mask
        fine = query.last_stride == key.last_stride == value.last_stride == 1
        fine = fine or (ignore_one and query.shape[-1] == 1)
        if fine and (mask is None or mask.last_stride == 1):
            return None
        text = (
            "All fused kernels require the last dimension of the input to have stride 1. "
            f"Got Query.stride(-1): {query.last_stride}, Key.stride(-1): {key.last_stride}, "
            f"Value.stride(-1): {value.last_stride}"
        )
        if mask is not None:
            text += (
                f", Attn_mask.stride(-1): {mask.last_stride} (GPU backends require attn_mask's last dimension to "
                "have stride 1 while the CPU does not)."
            )
        return text

    return judge


def batch_and_heads(supports_gqa: Callable[[Situation], bool], same_kv: bool = True) -> Callable[[Situation], Reason]:
    def judge(asked: Situation) -> Reason:
        query, key, value = (tensor.shape for tensor in asked.call.tensors)
        sizes = f"Query.sizes(): {list(query)}, Key.sizes(): {list(key)}, Value.sizes(): {list(value)} instead."
        expand = " To broadcast dense inputs, try using unsqueeze and expand_to before passing them into the kernel."
        if not query[0] == key[0] == value[0]:
            return (
                "For dense inputs, both fused kernels require query, key and value to have the same batch_size. "
                + sizes
                + expand
            )
        if asked.call.enable_gqa and supports_gqa(asked):
            if same_kv and key[1] != value[1]:
                return (
                    "Both fused kernels require key and value to have the same num_heads and batch_size but got: "
                    f"Key sizes: {list(key)}, Value sizes: {list(value)}, Query sizes: {list(query)} instead."
                )
            if query[1] % key[1] or query[1] % value[1]:
                return (
                    "The number of heads in key/value must divide number of heads in query."
                    f"Got input Key sizes(): {key[1]}, Value sizes(): {value[1]}, Query sizes(): {query[1]} instead."
                )
            return None
        if not query[1] == key[1] == value[1]:
            return (
                "For dense input, both fused kernels require query, key and value to have the same num_heads. "
                + sizes.replace("Key.sizes()", "Key sizes()").replace("Value.sizes()", "Value sizes()")
                + expand
            )
        return None

    return judge


def dtypes(allowed: Callable[[Situation], Tuple[str, ...]]) -> Callable[[Situation], Reason]:
    def judge(asked: Situation) -> Reason:
        dtypes = [tensor.dtype for tensor in asked.call.tensors]
        if dtypes[0] == dtypes[1] == dtypes[2] and dtypes[0] in allowed(asked):
            return None
        names = [C10.get(dtype, dtype) for dtype in dtypes]
        return (
            "Expected query, key and value to all be of dtype: {"
            + ", ".join(SCALAR_TYPES[dtype] for dtype in allowed(asked))
            + f"}}. Got Query dtype: {names[0]}, Key dtype: {names[1]}, and Value dtype: {names[2]} instead."
        )

    return judge


def low_precision(asked: Situation) -> Tuple[str, ...]:
    return HALVES if asked.gpu.capability[0] >= 8 else ("float16",)


def newest_sm(asked: Situation) -> Tuple[int, int]:
    if asked.version >= (2, 8):
        return 12, 1
    return (12, 0) if asked.version == (2, 7) else (9, 0)


def sm_range(oldest: Tuple[int, int], opening: str) -> Callable[[Situation], Reason]:
    def judge(asked: Situation) -> Reason:
        newest, capability = newest_sm(asked), asked.gpu.capability
        if asked.version in ((2, 7), (2, 8)) and capability > (9, 0):
            asked.doubts.append(
                f"the newest GPU that torch {dotted(asked.version)} takes is inferred from its pull requests"
            )
        if oldest <= capability <= newest:
            return None
        return (
            f"{opening} only supports gpu architectures in the range [sm{oldest[0]}{oldest[1]}, "
            f"sm{newest[0]}{newest[1]}]. Attempting to run on a sm {capability[0]}.{capability[1]} gpu."
        )

    return judge


def first(asked: Situation, *constraints: Callable[[Situation], Reason]) -> Reason:
    for constraint in constraints:
        reason = constraint(asked)
        if reason is not None:
            return reason
    return None
