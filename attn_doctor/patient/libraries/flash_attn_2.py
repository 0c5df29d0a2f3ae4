"""FlashAttention 2: its contract, and its calls in trials and samples.

Its stand-in is in flash_attn_2_stand_in.py.

Sources: Dao-AILab/flash-attention, flash_attn/flash_attn_interface.py, flash_attn/bert_padding.py,
flash_attn/layers/rotary.py and csrc/flash_attn/flash_api.cpp (tags 2.0.0 to 2.8.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Dict, List, Tuple

from ..dtypes import HALVES
from .contract import RAISES, Call, Clause, heads_divide, most_head_dim, no_mask, of_q
from .library import Backend, Library, Sampled

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels.problems import Problem
    from .library import Attention, Fill, Meet


def clauses(call: Call) -> List[Clause]:
    """The contract of flash_attn 2.x, in the order of its C++ checks; the first that fails is raised.

    Compared with the real kernels by tests/patient/trace/test_flash_attn_recorded.py.
    """
    q, k = call.operands["q"], call.operands["k"]
    release, capability = call.release("flash-attn"), call.at_least
    known = capability >= (8, 0) if release >= (2, 7, 3) else capability[0] == 8 or capability == (9, 0)
    found = [
        *_dimensions(call),
        Clause(
            "the GPU is an Ampere or newer, and one this version knows",
            known,
            RAISES,
            "FlashAttention only supports Ampere GPUs or newer.",
        ),
        Clause(
            "q is float16 or bfloat16",
            q.kind in HALVES,
            RAISES,
            "FlashAttention only support fp16 and bf16 data type",
            ("q",),
        ),
        *no_mask(call, "flash_attn_func takes no mask"),
        *_since(call, release),
        *of_q(call),
    ]
    for name, kind in zip(("cu_seqlens_q", "cu_seqlens_k"), call.options.get("starts", ())):
        found.append(Clause(name + " is int32", kind == "int32", RAISES, name + " must have dtype int32"))
    found.extend(most_head_dim(call, 256, "FlashAttention forward only supports head dimension at most 256"))
    limited = _backward_limit(release, q.head_dim, float(call.options.get("dropout") or 0.0))
    if call.backward and limited and capability not in ((8, 0), (9, 0)):
        words = "the backward pass fits this GPU at this head dimension"
        found.append(Clause(words, False, RAISES, limited, ("q",)))
    found.extend(heads_divide(call, "Number of heads in key/value must divide number of heads in query"))
    if call.options.get("softcap") and call.options.get("dropout"):
        message = "Softcapping does not support dropout for now"
        found.append(Clause("no dropout beside a soft cap", False, RAISES, message))
    if isinstance(q.head_dim, int) and isinstance(k.head_dim, int):
        message = "k must have shape (batch_size, seqlen_k, num_heads_k, head_size)"
        found.append(Clause("k and v are as wide as q", k.head_dim == q.head_dim, RAISES, message, ("k",)))
    found.extend(_shapes(call))
    for role, name in (("new_k", "Key"), ("new_v", "Value")):
        if role in call.operands:
            message = name + " must have the same dtype as query"
            kept = call.operands[role].kind == q.kind
            found.append(Clause(role + " has the dtype of q", kept, RAISES, message, (role,)))
    return found


def _dimensions(call: Call) -> List[Clause]:
    """Its Python code reads the head dimension by its position, before any check."""
    name = str(call.options.get("name", ""))
    if not name.endswith("_func"):
        return []
    wanted, met = (3 if "varlen" in name else 4), len(call.operands["q"].shape)
    message = "Dimension out of range (expected to be in range of [{}, {}], but got {})".format(
        -met, met - 1, wanted - 1
    )
    return [Clause("q has {} dimensions".format(wanted), met >= wanted, RAISES, message, ("q",), "IndexError")]


def _since(call: Call, release: Tuple[int, ...]) -> List[Clause]:
    new = (
        ("softcap", (2, 6), "softcap is new in flash-attn 2.6"),
        ("window", (2, 3), "window_size is new in flash-attn 2.3"),
    )
    return [
        Clause(option + " is known to this release", release >= since, RAISES, reason, (), "TypeError")
        for option, since, reason in new
        if call.options.get(option)
    ]


def _backward_limit(release: Tuple[int, ...], dim: object, dropout: float) -> str:
    needs = "requires A100/A800 or H100/H800"
    if not isinstance(dim, int):
        return ""
    if release < (2, 5, 5):
        return "FlashAttention backward for head dim > 192 " + needs if dim > 192 else ""
    if release < (2, 6, 2):
        hit = (dim > 224 and dropout > 0) or 192 < dim <= 224
        text = "FlashAttention backward for head dim 256 with dropout, or head dim 224 with/without dropout "
        return text + needs if hit else ""
    if release < (2, 7, 3):
        return "FlashAttention backward for head dim > 192 with dropout " + needs if dim > 192 and dropout else ""
    return ""


def _shapes(call: Call) -> List[Clause]:
    """k and v have one shape, with the batch of q. Other rules apply to a cache, to pages and to packed sequences."""
    q, k, v = (call.operands[role] for role in "qkv")
    if str(call.options.get("name", "")) not in ("flash_attn_func", "flash_attn_kvpacked_func"):
        return []
    found = []
    for role, one, length in (("k", k, k), ("v", v, k)):
        if len(one.shape) == len(q.shape) == 4:
            kept = one.shape == (q.shape[0], length.shape[1], length.shape[2], q.shape[3])
            message = role + " must have shape (batch_size, seqlen_k, num_heads_k, head_size)"
            found.append(Clause(role + " has the batch of q, and v the shape of k", kept, RAISES, message, (role,)))
    return found


def prepare(problem: Problem, backend: Backend) -> Callable[[], Tensor]:
    import flash_attn

    from . import calls

    given = {"dropout_p": 0.0, **calls.options_of(problem)}
    if problem.documents is None:

        def compute() -> Tensor:
            return flash_attn.flash_attn_func(*calls.batched(problem), **given).transpose(1, 2)

        return compute
    ends, longest = calls.ends_of(problem)

    def packed() -> Tensor:
        operands = calls.packed(problem)
        out = flash_attn.flash_attn_varlen_func(*operands, ends, ends, longest, longest, **given)
        return out.transpose(0, 1)[None]

    return packed


def sample(function: str, dtype: str) -> Callable[[], Tensor]:
    """A causal call of that function; for varlen: two sequences of half the length, packed."""
    import flash_attn
    import torch

    from .calls import LENGTH, qkv

    called = getattr(flash_attn, function)
    q, k, v = qkv(dtype)
    if "varlen" not in function:
        return lambda: called(q, k, v, causal=True)
    q, k, v = (one.detach().flatten(0, 1).requires_grad_() for one in (q, k, v))
    half = LENGTH // 2
    starts = torch.tensor([0, half, LENGTH], dtype=torch.int32, device="cuda")
    return lambda: called(q, k, v, starts, starts, half, half, causal=True)


def _modules(attention: Attention, meet: Meet, version: str) -> Dict[str, Fill]:
    from . import flash_attn_2_stand_in

    return flash_attn_2_stand_in.modules(attention, meet, version)


LIBRARY = Library(
    name="flash-attn-2",
    order=10,
    module="flash_attn",
    distributions=("flash-attn",),
    extensions=("flash_attn_2_cuda",),
    kernels_in=("flash_attn_2_cuda",),
    attn_implementation="flash_attention_2",
    errors=r"flash.?attn|FlashAttention",
    # `Flash Attention 2.0` is what the algorithm is called, in messages of many programs.
    in_logs=("flash[-_ ]attn", r"[Ff]lash[-_ ]?[Aa]ttention(?! ?2(?:\.0)?(?![.\d]))"),
    in_messages=(r"\b[Ff]lash[-_ ]?[Aa]tt(?:ention|n)",),
    checkouts=("flash-attention",),
    functions=((r"flash_attn\.flash_attn_interface$", r"flash_attn_\w*func$|flash_attn_with_kvcache$"),),
    clauses=clauses,
    modules=_modules,
    words="flash_attn {} stand-in: the checks of its kernels, the arithmetic of torch",
    newest="2.8.3",
    backends=(
        Backend(
            name="flash-attn-2",
            title="FlashAttention-2",
            calls="flash_attn_2",
            module="flash_attn_2_cuda",
            promises=("forward",),  # flash_attn_func's docstring: "The forward pass is always deterministic."
            takes=("tail", "empty-documents", "deterministic"),
            whole=True,
        ),
    ),
    samples=(
        Sampled(
            name="flash-attn-flash-attn-func",
            words="flash_attn, flash_attn_func",
            factory="flash_attn_2:sample",
            arguments={"function": "flash_attn_func"},
        ),
        Sampled(
            name="flash-attn-flash-attn-varlen-func",
            words="flash_attn, flash_attn_varlen_func",
            factory="flash_attn_2:sample",
            arguments={"function": "flash_attn_varlen_func"},
        ),
    ),
)
