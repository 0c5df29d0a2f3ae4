"""FlashAttention 3: its contract and its stand-in.

Source: Dao-AILab/flash-attention, hopper/flash_attn_interface.py and hopper/flash_api.cpp (2.8.3 and 2026-08).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Tuple

from ..dtypes import EIGHT_BITS, HALVES
from .contract import RAISES, Call, Clause, heads_divide, most_head_dim, no_mask, of_q
from .library import Backend, Library, Sampled

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from torch import Tensor

    from ..arguments import Given, Keywords, Positional
    from ..kernels.problems import Problem
    from .library import Attention, Fill, Meet


def clauses(call: Call) -> List[Clause]:
    """The contract, in the order of hopper/flash_api.cpp.

    Its kernels are built for 8.0, which also run on 8.x, and for 9.0a, which run only there: a later GPU passes the
    checks and has no kernel (newer builds report that themselves).
    """
    q, capability = call.operands["q"], call.at_least
    before_hopper = (8, 0) <= capability < (9, 0)
    allowed = HALVES if before_hopper or call.backward else (*HALVES, EIGHT_BITS)
    message = "FlashAttention only supports fp16, bf16, and fp8_e4m3 data type"
    reason = ""
    if call.backward and q.kind == EIGHT_BITS:
        message = "FlashAttention only support fp16 and bf16 data type"
        reason = "float8 is for its forward pass: " + message
    elif before_hopper:
        message = "FlashAttention on Ampere/Ada cards only supports fp16 and bf16 data type"
    return [
        Clause(
            "the GPU is an Ampere or newer",
            capability >= (8, 0),
            RAISES,
            "FlashAttention only supports Ampere GPUs or newer.",
            reason="it needs compute capability 8.0 or later",
        ),
        Clause(
            "q is float16, bfloat16 or (Hopper, forward) float8_e4m3",
            q.kind in allowed,
            RAISES,
            message,
            ("q",),
            reason=reason,
        ),
        *of_q(call),
        *most_head_dim(call, 256, "FlashAttention forward only supports head dimension at most 256"),
        *heads_divide(call, "Number of heads in key/value must divide number of heads in query"),
        *_multiple(q),
        Clause(
            "it has kernels for the GPU: those of compute capability 8.x and 9.0",
            capability <= (9, 0),
            RAISES,
            "CUDA error: no kernel image is available for execution on the device",
            reason="it has kernels for compute capability 8.x and 9.0",
        ),
        *no_mask(call, "flash_attn_func takes no mask"),
    ]


def _multiple(q: Tensor) -> List[Clause]:
    step = 16 if q.kind == EIGHT_BITS else 8
    if not isinstance(q.head_dim, int):
        return []
    message = "head_size should be a multiple of {}".format(step)
    words = "the head dimension is a multiple of 8, of float8 of 16"
    return [Clause(words, q.head_dim % step == 0, RAISES, message, ("q",))]


_OPTIONS = "softmax_scale=None, causal=False"
_SCALES = "q_descale=None, k_descale=None, v_descale=None, window_size=(-1, -1), attention_chunk=0, softcap=0.0"
_REST = "num_splits=1, pack_gqa=None, deterministic=False, sm_margin=0, return_attn_probs=False"
PARAMETERS: Dict[str, str] = {
    "flash_attn_func": "q, k, v, {}, qv=None, {}, {}".format(_OPTIONS, _SCALES, _REST),
    "flash_attn_varlen_func": "q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, seqused_q=None, "
    "seqused_k=None, {}, qv=None, {}, {}".format(_OPTIONS, _SCALES, _REST),
    "flash_attn_qkvpacked_func": "qkv, {}, {}, deterministic=False, num_heads_q=None, sm_margin=0, "
    "return_attn_probs=False".format(_OPTIONS, _SCALES),
    "flash_attn_with_kvcache": "q, k_cache, v_cache, k=None, v=None, qv=None, rotary_cos=None, rotary_sin=None, "
    "cache_seqlens=None, cache_batch_idx=None, cache_leftpad=None, page_table=None, cu_seqlens_q=None, "
    "cu_seqlens_k_new=None, max_seqlen_q=None, rotary_seqlens=None, q_descale=None, k_descale=None, v_descale=None, "
    "softmax_scale=None, causal=False, window_size=(-1, -1), attention_chunk=0, softcap=0.0, "
    "rotary_interleaved=True, scheduler_metadata=None, num_splits=0, pack_gqa=None, sm_margin=0, "
    "return_softmax_lse=False",
}
_INTERFACE = "flash_attn_interface"


def answer(given: Given, out: Tensor, q: Tensor, v: Tensor) -> Any:
    """The return value. The output is contiguous whatever q's layout, and bfloat16 for float8."""
    import torch

    dtype = torch.bfloat16 if q.element_size() == 1 else q.dtype
    room = q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=dtype)
    room.copy_(out)
    if not (given.get("return_attn_probs") or given.get("return_softmax_lse")):
        return room
    shape = (q.shape[0], q.shape[2], q.shape[1]) if q.dim() == 4 else (q.shape[1], q.shape[0])
    lse = q.new_zeros(shape, dtype=torch.float32)
    # With a cache it also returns the accumulators of its splits; without splits they are None.
    return (room, lse, None, None) if "return_softmax_lse" in given else (room, lse)


def operands_of(name: str, given: Given) -> Tuple[Tensor, ...]:
    if "qkvpacked" in name:
        return (given["qkv"],)
    if "with_kvcache" in name:
        return given["q"], given["k_cache"], given["v_cache"]
    return given["q"], given["k"], given["v"]


def split(given: Given, operands: Tuple[Tensor, ...]) -> Tuple[Tensor, Tensor, Tensor]:
    """q, k and v from the operands of a function: when packed, with equal numbers of heads, or one after the other."""
    if len(operands) == 3:
        return operands[0], operands[1], operands[2]
    qkv, heads = operands[0], given.get("num_heads_q")
    if heads is None or qkv.dim() == 5:
        q, k, v = qkv.unbind(-3)
        return q, k, v
    shared = (qkv.shape[2] - heads) // 2
    q, k, v = qkv.split([heads, shared, shared], dim=2)
    return q, k, v


def run(attention: Attention, name: str, given: Given) -> Any:
    import torch

    from . import stand_in

    causal, scale = bool(given.get("causal")), given.get("softmax_scale")

    def arithmetic(*operands: Tensor) -> Tensor:
        q, k, v = split(given, operands)
        if given.get("page_table") is not None:
            return torch.zeros_like(q)  # pages are not gathered: only dtype and shape are needed
        if given.get("cu_seqlens_k") is not None:
            return stand_in.packed_attention(q, k, v, given["cu_seqlens_q"], given["cu_seqlens_k"], causal, scale)
        if "with_kvcache" in name and given.get("k") is not None:
            k, v = torch.cat([k, given["k"]], 1), torch.cat([v, given["v"]], 1)
        if q.dim() == 3:
            return stand_in.zeros(q, k[0], v[0]) if k.dim() == 4 else stand_in.zeros(q, k, v)
        return stand_in.attention(q, k, v, causal, scale)

    def answered(out: Tensor, *operands: Tensor) -> object:
        q, _, v = split(given, operands)
        return answer(given, out, q, v)

    like = torch.empty_like if "packed" not in name else (lambda operand: operand.new_empty(operand.shape))
    return stand_in.run(attention, arithmetic, answered, operands_of(name, given), like)


def modules(attention: Attention, meet: Meet, version: str) -> Dict[str, Fill]:
    """Module name -> function that fills it. `meet(name, where, given, args, kwargs, frame, run)` judges a call and
    runs it.
    """
    from .signatures import function

    def met(name: str, given: Given, args: Positional, kwargs: Keywords, frame: FrameType) -> object:
        return meet(name, _INTERFACE, given, args, kwargs, frame, lambda: run(attention, name, given))

    def interface(module: ModuleType) -> None:
        module.__path__ = []
        for name, words in PARAMETERS.items():
            setattr(module, name, function(name, words, _INTERFACE, functools.partial(met, name)))

    return {_INTERFACE: interface}


def prepare(problem: Problem, backend: Backend) -> Callable[[], Tensor]:
    import flash_attn_interface

    from . import calls

    given = calls.options_of(problem)
    sequences = len(problem.documents) if problem.documents is not None else problem.q.shape[0]
    for name, scale in problem.scales.items():
        given[name + "_descale"] = scale.expand(sequences, -1).contiguous()
    if problem.documents is None:

        def compute() -> Tensor:
            return calls.output_of(flash_attn_interface.flash_attn_func(*calls.batched(problem), **given)).transpose(
                1, 2
            )

        return compute
    ends, longest = calls.ends_of(problem)

    def packed() -> Tensor:
        operands = calls.packed(problem)
        # Its first betas return the log-sum-exp as well.
        out = flash_attn_interface.flash_attn_varlen_func(*operands, ends, ends, longest, longest, **given)
        return calls.output_of(out).transpose(0, 1)[None]

    return packed


def sample(dtype: str) -> Callable[[], Tensor]:
    """A causal call."""
    from flash_attn_interface import flash_attn_func

    from .calls import causal_sample

    return causal_sample(flash_attn_func, dtype)


LIBRARY = Library(
    name="flash-attn-3",
    order=20,
    module="flash_attn_interface",
    distributions=("flash-attn-3", "flashattn-hopper"),
    extensions=("flash_attn_3",),
    attn_implementation="flash_attention_3",
    errors=r"flash_attn_interface|flash_attn_3|FlashAttention3",
    in_messages=(r"\b[Ff]lash[-_ ]?[Aa]tt(?:ention|n)[-_ ]?3\b", r"\bFA3\b", "flash_attn_interface"),
    sources=("hopper",),
    functions=((r"(flash_attn_3\.)?flash_attn_interface$", r"flash_attn_\w*func$|flash_attn_with_kvcache$"),),
    clauses=clauses,
    modules=modules,
    words="flash_attn 3 stand-in: the checks of its kernels, the arithmetic of torch",
    newest="3.0.0",
    refusals=(  # messages about parts disabled at build time: FLASHATTENTION_DISABLE_…
        "This flash attention build does not support",
        "This flash attention build only supports",
        "only supports Hopper GPUs (SM90)",
    ),
    backends=(
        Backend(
            name="flash-attn-3",
            title="FlashAttention-3",
            calls="flash_attn_3",
            promises=("forward",),  # flash_attn_func's docstring: "The forward pass is always deterministic."
            takes=("tail", "empty-documents", "deterministic"),
            more_dtypes=("float8_e4m3fn",),
            whole=True,
        ),
    ),
    samples=(
        Sampled(name="flash-attn-3-func", words="flash_attn_3, flash_attn_3_func", factory="flash_attn_3:sample"),
    ),
)
