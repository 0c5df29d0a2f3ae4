"""FlashAttention 4: its contract and its stand-in.

Source: flash_attn/cute/interface.py of flash-attn-4 4.0.0b4, b12, b24 and b36.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, List

from ..dtypes import FLOAT8, HALVES
from .contract import RAISES, Call, Clause, heads_divide, no_mask, odd
from .library import Backend, Library, Sampled

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from torch import Tensor

    from ..arguments import Given, Keywords, Positional
    from ..kernels.problems import Problem
    from .library import Attention, Fill, Meet


def clauses(call: Call) -> List[Clause]:
    """The contract, in the order of the asserts of 4.0.0b36."""
    operands, capability = call.operands, call.at_least
    q, k, v = (operands[role] for role in "qkv")
    supported = "Unsupported compute capability. Supported: {}9.x, 10.x, 11.x, 12.x"
    oldest = 9 if call.backward else 8
    found = [
        Clause(
            "v is float16, bfloat16 or float8",
            v.kind in (*HALVES, *FLOAT8),
            RAISES,
            "inputs must be float16, bfloat16, fp8 e4m3fn, or fp8 e5m2",
            tuple(r for r in "qkv" if operands[r].kind not in HALVES),
            "AssertionError",
        ),
        Clause(
            "q and k have the dtype of v",
            q.kind == k.kind == v.kind,
            RAISES,
            "q, k, v, and qv must have the same dtype",
            odd(operands),
            "AssertionError",
        ),
        Clause(
            "the GPU is one of compute capability 8.x to 12.x, for a backward pass 9.x to 12.x",
            oldest <= capability[0] <= 12,
            RAISES,
            supported.format("" if call.backward and capability[0] == 8 else "8.x, "),
            (),
            "AssertionError",
        ),
        *heads_divide(call, "num_head must be divisible by num_head_kv", "AssertionError"),
        *_head_dims(call),
    ]
    if v.kind in FLOAT8:
        message = "FP8 is only supported on SM100 (compute capability 10.x) for FA4 CuTe."
        kept = capability[0] == 10 and not call.backward
        reason = "FP8 is only supported on SM100, forward only"
        found.append(Clause("float8 is for 10.x, forward", kept, RAISES, message, (), "AssertionError", reason))
        if call.options.get("scales"):
            found.append(Clause("no scales are given", False, RAISES, "flash_attn_func takes no scales"))
    found.extend(no_mask(call, "flash_attn_func takes no mask tensor"))
    return found


def _head_dims(call: Call) -> List[Clause]:
    capability, v = call.at_least, call.operands["v"]
    dims = call.operands["q"].head_dim, v.head_dim
    if capability[0] not in (9, 10, 11) or not all(isinstance(dim, int) for dim in dims):
        return []
    step = 16 if v.kind in FLOAT8 else 8
    most = 256 if capability[0] == 9 else 128
    special = capability[0] != 9 and (dims in ((192, 128), (256, 256)) or (dims[0] in (64, 512) and dims[1] == 512))
    kept = all(dim % step == 0 for dim in dims) and (special or all(8 <= dim <= most for dim in dims))
    message = "(head_dim, head_dim_v)={} is not supported on {}. head_dim and head_dim_v must be between 8 and {}"
    message = message.format(dims, "SM90" if capability[0] == 9 else "SM100/SM110", most)
    message += " and divisible by {}".format(step)
    if capability[0] != 9:
        message += ", or (192, 128) for DeepSeek, or (256, 256) for hd256"
    words = "the head dimensions are ones that its kernel for this GPU takes"
    return [Clause(words, kept, RAISES, message + ".", ("q",), "AssertionError")]


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


def answer(given: Given, out: Tensor, q: Tensor, v: Tensor, trains: bool) -> Any:
    """The return value, always a pair: a contiguous output, bfloat16 for float8, and a log-sum-exp if one is needed."""
    import torch

    room = q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=torch.bfloat16 if v.element_size() == 1 else q.dtype)
    room.copy_(out)
    if not (trains or given.get("return_lse")):
        return room, None
    shape = (q.shape[0], q.shape[2], q.shape[1]) if q.dim() == 4 else (q.shape[1], q.shape[0])
    return room, q.new_zeros(shape, dtype=torch.float32)


def run(attention: Attention, given: Given) -> Any:
    import torch

    from . import stand_in

    operands = given["q"], given["k"], given["v"]
    sink = given.get("learnable_sink")
    trains = any(one.requires_grad for one in (*operands, *([sink] if sink is not None else [])))
    causal, scale = bool(given.get("causal")), given.get("softmax_scale")

    def arithmetic(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ends = given.get("cu_seqlens_q"), given.get("cu_seqlens_k")
        if all(one is not None for one in ends):
            return stand_in.packed_attention(q, k, v, *ends, causal, scale)
        if given.get("page_table") is not None or q.dim() != 4 or k.dim() != 4:
            return torch.zeros_like(q)[..., :1].expand(*q.shape[:-1], v.shape[-1])
        return stand_in.attention(q, k, v, causal, scale)

    def answered(out: Tensor, q: Tensor, k: Tensor, v: Tensor) -> object:
        return answer(given, out, q, v, trains)

    return stand_in.run(attention, arithmetic, answered, operands)


def modules(attention: Attention, meet: Meet, version: str) -> Dict[str, Fill]:
    """Module name -> function that fills it. `meet(name, where, given, args, kwargs, frame, run)` judges a call and
    runs it.
    """
    from .signatures import function

    def met(name: str, given: Given, args: Positional, kwargs: Keywords, frame: FrameType) -> object:
        return meet(name, "flash_attn.cute", given, args, kwargs, frame, lambda: run(attention, given))

    def cute(module: ModuleType) -> None:
        module.__path__ = []
        for name, words in PARAMETERS.items():
            setattr(module, name, function(name, words, _INTERFACE, functools.partial(met, name)))

    return {"flash_attn.cute": cute, "flash_attn.cute.interface": cute}


def prepare(problem: Problem, backend: Backend) -> Callable[[], Tensor]:
    from flash_attn.cute import flash_attn_func, flash_attn_varlen_func

    from . import calls

    given = calls.options_of(problem)
    if problem.documents is None:

        def compute() -> Tensor:
            return calls.output_of(flash_attn_func(*calls.batched(problem), **given)).transpose(1, 2)

        return compute
    ends, longest = calls.ends_of(problem)
    # By name: between its betas a parameter was added before these.
    packing = {"cu_seqlens_q": ends, "cu_seqlens_k": ends, "max_seqlen_q": longest, "max_seqlen_k": longest}

    def packed() -> Tensor:
        out = flash_attn_varlen_func(*calls.packed(problem), **packing, **given)
        return calls.output_of(out).transpose(0, 1)[None]

    return packed


def sample(dtype: str) -> Callable[[], Tensor]:
    """A causal call."""
    from flash_attn.cute import flash_attn_func

    from .calls import causal_sample

    return causal_sample(flash_attn_func, dtype)


LIBRARY = Library(
    name="flash-attn-4",
    order=30,
    module="flash_attn.cute",
    distributions=("flash-attn-4",),
    attn_implementation="flash_attention_4",
    errors=r"flash_attn\.cute|FlashAttention4",
    in_messages=(r"\b[Ff]lash[-_ ]?[Aa]tt(?:ention|n)[-_ ]?4\b", r"\bFA4\b", r"flash_attn\.cute"),
    functions=((r"flash_attn\.cute(\.interface)?$", r"flash_attn_\w*func$|flash_attn_with_kvcache$"),),
    clauses=clauses,
    modules=modules,
    words="flash_attn 4 stand-in: the checks of its kernels, the arithmetic of torch",
    newest="4.0.0",
    backends=(
        Backend(
            name="flash-attn-4",
            title="FlashAttention-4",
            calls="flash_attn_4",
            alone=False,
            compiled=True,
            whole=True,
        ),
    ),
    samples=(
        Sampled(name="flash-attn-4-func", words="flash_attn_4, flash_attn_4_func", factory="flash_attn_4:sample"),
    ),
)
