"""SageAttention: its contract and its return value.

Sources: sageattention 1.0.6 and thu-ml/SageAttention (tag 2.2.0 and 2026-01), sageattention/core.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Tuple

from ..dtypes import HALVES
from .contract import RAISES, Call, Clause, equal_dtypes, release_of
from .library import Answered, Library

if TYPE_CHECKING:
    from torch import Tensor

    from ..arguments import Given

_CAPABILITIES = ((8, 0), (8, 6), (8, 9), (9, 0), (12, 0), (12, 1))
"""GPUs for which `sageattn` of 2.x has a kernel."""


def clauses(call: Call) -> List[Clause]:
    """The contract, in the order of its asserts; before 2.0 it also accepts float32, and only head dimensions 64, 96
    and 128.
    """
    q = call.operands["q"]
    old = call.release("sageattention") < (2,)
    name = str(call.options.get("name", "sageattn"))
    found = []
    if name == "sageattn" and not old:
        message = "Unsupported CUDA architecture: sm{}{}".format(*call.at_least)
        kept = call.at_least in _CAPABILITIES
        found.append(Clause("it has a kernel for the GPU", kept, RAISES, message, (), "ValueError"))
    allowed = (*HALVES, "float32") if old else HALVES
    message = "Input tensors must be in dtype of " + (
        "torch.float16, torch.bfloat16, or torch.float32." if old else "torch.float16 or torch.bfloat16"
    )
    words = "q is float16, bfloat16" + (" or float32" if old else "")
    found.append(Clause(words, q.kind in allowed, RAISES, message, ("q",), "AssertionError"))
    found.append(equal_dtypes(call.operands, None, RAISES, "All tensors must have the same dtype.", "AssertionError"))
    if isinstance(q.head_dim, int):
        dims = (64, 128) if name.endswith("varlen") else (64, 96, 128)
        kept = q.head_dim in dims if old else q.head_dim <= 128
        text = "varlen only support head_dim [64, 128]." if len(dims) == 2 else "headdim should be in [64, 96, 128]."
        message, error = (
            (text, "AssertionError") if old else ("Unsupported head_dim: {}".format(q.head_dim), "ValueError")
        )
        found.append(Clause("it has a kernel for the head dimension", kept, RAISES, message, ("q",), error))
    # 2.x pads head dimensions other than 64 and 128, and the result is contiguous.
    if old or q.head_dim in (64, 128):
        strided = tuple(r for r in "qkv" if (call.operands[r].stride or (1,))[-1] != 1)
        message = "Last dim of qkv must be contiguous."
        found.append(Clause("the last strides are 1", not strided, RAISES, message, strided, "AssertionError"))
    return found


def answer(name: str, given: Given, out: Tensor, q: Tensor, release: Tuple[int, ...]) -> Any:
    """A contiguous output without autograd history, in q's dtype; 2.x slices it from a head dimension of 64 or 128."""
    dim = q.shape[-1]
    wide = (64 if dim < 64 else 128) if release >= (2,) and dim not in (64, 128) and dim < 128 else dim
    room = q.detach().new_empty((*q.shape[:-1], wide))[..., :dim]
    room.copy_(out.detach())
    if not given.get("return_lse"):
        return room
    heads_first = given.get("tensor_layout", "HND") == "HND"
    shape = (q.shape[0], q.shape[1], q.shape[2]) if heads_first else (q.shape[0], q.shape[2], q.shape[1])
    return room, room.new_zeros(shape).float()


def _answered(met: Answered) -> object:
    return answer(met.name, met.given, met.out, met.operands["q"], release_of(met.version))


LIBRARY = Library(
    name="sageattention",
    order=70,
    module="sageattention",
    distributions=("sageattention",),
    in_messages=(
        r"[Ss]age[-_ ]?[Aa]tt(?:ention|n)",
        r"\bheaddim should be in \[",
        r"\bSM\d+ kernel is not available",
        r"\bUnsupported CUDA architecture: sm",
        r"'_qattn_sm\d",
    ),
    parts=("_fused", "_qattn_sm80", "_qattn_sm89", "_qattn_sm90"),
    sources=("SageAttention", "sageattn"),
    functions=((r"sageattention(\.core)?$", r"sageattn\w*$"),),
    clauses=clauses,
    answer=_answered,
)
