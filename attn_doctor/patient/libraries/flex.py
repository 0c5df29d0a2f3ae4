"""FlexAttention: the contract of torch.nn.attention.flex_attention, and its return value.

Source: pytorch torch/_higher_order_ops/flex_attention.py and torch/nn/attention/flex_attention.py (2.5 to 2.13);
torch/_inductor/kernel/flex/flex_attention.py for the limits of its backward pass (2.13). Every pair of dtypes, with and
without autocast, forward and backward, was run on an H100 with torch 2.11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List

from ..dtypes import HALVES
from .contract import RAISES, REPAIRED, SILENT, Call, Clause, equal_dtypes, mended_by_autocast
from .library import Answered, Backend, Library

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels.problems import Problem


def clauses(call: Call) -> List[Clause]:
    q = call.kinds[0]
    version, dim = call.release("torch"), call.operands["q"].head_dim
    there, eight = version >= (2, 5), q.startswith("float8")
    found = [
        Clause("torch has it", there, RAISES, "flex_attention is new in torch 2.5", (), "ImportError"),
        *(_one_dtype(call) if version < (2, 11) else _cast_by_torch(call)),
        Clause("q is no float8", not eight, RAISES, "flex_attention takes no float8", ("q",)),
    ]
    if isinstance(dim, int) and version < (2, 7):
        message = "NYI: embedding dimension must be a power of 2"
        found.append(Clause("the head dimension is a power of 2", not dim & (dim - 1), RAISES, message, ("q",)))
    return found


def _one_dtype(call: Call) -> List[Clause]:
    """Up to torch 2.10: unequal dtypes are refused, and autocast does not affect it."""
    q, k, v = call.kinds
    message = (
        "Expected query, key, and value to have the same dtype, but got query.dtype: torch.{}, key.dtype: torch.{}, "
        "and value.dtype: torch.{} instead.".format(q, k, v)
    )
    return [equal_dtypes(call.operands, None, RAISES, message, "ValueError")]


def _cast_by_torch(call: Call) -> List[Clause]:
    """From torch 2.11 on: autocast casts q, k and v; without it, k and v are cast to q's dtype in the forward pass.

    So a half-precision q with wider k or v does no harm, but a wider q silently makes the whole attention wide. The
    backward pass refuses different dtypes, but only when torch compiles it, which it does not under a trace.
    """
    mended = mended_by_autocast(call.operands, call.options.get("autocast"))
    if mended is not None:
        return mended
    harmless = call.kinds[0] in HALVES and not call.backward
    message = ""
    if call.backward:
        message = "Backward pass with mixed query, key, and value dtype is not supported"
    return [equal_dtypes(call.operands, None, REPAIRED if harmless else SILENT, message)]


def answer(given: Any, out: Tensor, query: Tensor, aux_output: Any) -> Any:
    """The return value: the output, with its dimensions in memory in query's order, and each row's log-sum-exp in one
    of two forms.

    `aux_output`: torch's class for the newer form.
    """
    import torch

    from .stand_in import in_the_order_of

    out = in_the_order_of(query, out)
    rows = out.detach().sum(-1, dtype=torch.float32)
    aux = given.get("return_aux")
    if aux is not None:
        return out, aux_output(*(rows if getattr(aux, name, False) else None for name in aux_output._fields))
    return (out, rows) if given.get("return_lse") else out


def _answered(met: Answered) -> object:
    import sys

    newer = getattr(sys.modules.get(met.module), "AuxOutput", None)
    return answer(met.given, met.out, met.operands["q"], newer)


def prepare(problem: Problem, backend: Backend) -> Callable[[], Tensor]:
    """Compiled; uncompiled it would be the plain computation."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    queries, keys = problem.q.shape[-2], problem.k.shape[-2]
    batch, heads = problem.q.shape[:2]
    allowed, cap = problem.allowed(whole=True), problem.softcap
    bias = None if problem.mask is None or problem.mask.dtype == torch.bool else problem.mask
    block_mask = None
    if allowed is not None:
        one = allowed.numel() == queries * keys
        seen = allowed.reshape(queries, keys) if one else allowed.expand(batch, heads, queries, keys)

        def mask_mod(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return seen[query, key] if one else seen[batch, head, query, key]

        many = (None, None) if one else (batch, heads)
        block_mask = create_block_mask(mask_mod, *many, queries, keys, device=str(problem.device))
    score_mod = None
    if bias is not None:
        table = bias.expand(batch, heads, queries, keys)

        def score_mod(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return score + table[batch, head, query, key]

    elif cap is not None:

        def score_mod(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return torch.tanh(score / cap) * cap

    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda: compiled(
        problem.q,
        problem.k,
        problem.v,
        score_mod=score_mod,
        block_mask=block_mask,
        scale=problem.scale,
        enable_gqa=problem.gqa,
    )


LIBRARY = Library(
    name="flex",
    order=80,
    module="torch.nn.attention.flex_attention",
    functions=((r"torch\.nn\.attention\.flex_attention$", r"flex_attention$"),),
    clauses=clauses,
    answer=_answered,
    backends=(
        Backend(name="flex", title="FlexAttention", calls="flex", compiled=True, compiled_as="inductor", whole=True),
    ),
)
