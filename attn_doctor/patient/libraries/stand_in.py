"""Stand-ins for kernels: plain arithmetic with the kernel's memory layout, behind one autograd node.

torch computes the arithmetic; each library defines strides, dtypes and further return values, with the same operations
that the library uses. Imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, Optional, Tuple, Union

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from ..arguments import Function
    from .library import Attention, Pausing


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: Optional[float] = None) -> Tensor:
    """(batch, q_len, heads, dim) x (batch, kv_len, kv_heads, dim) -> (batch, q_len, heads, v_dim), q's dtype."""
    heads, kv_heads = q.shape[-2], k.shape[-2]
    dtype = q.dtype
    q, k, v = (t.to(torch.float32).transpose(1, 2) for t in (q, k, v))
    if heads != kv_heads:
        k = k.repeat_interleave(heads // kv_heads, dim=1)
        v = v.repeat_interleave(heads // kv_heads, dim=1)
    scores = torch.matmul(q, k.transpose(-1, -2)) * (scale if scale is not None else q.shape[-1] ** -0.5)
    if causal:
        rows, columns = scores.shape[-2:]
        keep = torch.ones(rows, columns, dtype=torch.bool, device=scores.device).tril(columns - rows)
        scores = scores.masked_fill(~keep, float("-inf"))
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)
    return torch.matmul(weights, v).transpose(1, 2).to(dtype)


def packed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    ends_q: Union[Tensor, List[int]],
    ends_k: Union[Tensor, List[int]],
    causal: bool,
    scale: Optional[float],
) -> Tensor:
    """(tokens, heads, dim) for packed sequences; `ends_q` and `ends_k` are cumulative ends, starting with 0: tensors or
    lists.

    Tokens after the last end are 0.
    """
    try:
        lists = [ends if isinstance(ends, list) else ends.tolist() for ends in (ends_q, ends_k)]
    except Exception:
        # Fake tensors have no values: they are treated as one sequence.
        return attention(q[None], k[None], v[None], causal, scale)[0]
    parts: List[Tensor] = []
    for i in range(len(lists[0]) - 1):
        one_q, one_k, one_v = (t[a[i] : a[i + 1]][None] for t, a in zip((q, k, v), (lists[0], lists[1], lists[1])))
        parts.append(attention(one_q, one_k, one_v, causal, scale)[0])
    used = sum(part.shape[0] for part in parts)
    if used < q.shape[0]:
        parts.append(q.new_zeros((q.shape[0] - used, q.shape[1], v.shape[-1])))
    return torch.cat(parts)


def zeros(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q's shape and dtype, v's last dimension, differentiable in all three: for kernels of which only this is known."""
    nothing = sum(t.to(torch.float32).sum() * 0.0 for t in (q, k, v)).nan_to_num(0.0)
    return nothing.to(q.dtype).expand(*q.shape[:-1], v.shape[-1]).clone()


def filled(out: Tensor, values: Tensor) -> Tensor:
    """`out` filled with the values, as a kernel writes into its allocation; `out` may be wider than the values."""
    seen = out[..., : values.shape[-1]]
    seen.copy_(values)
    return seen


def in_the_order_of(query: Tensor, out: Tensor) -> Tensor:
    """`out`, contiguous, with its dimensions in memory in query's order."""
    order = sorted(range(query.dim()), key=lambda dim: (-query.stride(dim), dim))
    return out.permute(order).contiguous().permute([order.index(dim) for dim in range(len(order))])


class _Kernel(torch.autograd.Function):
    """A kernel as autograd sees it: one node, with gradients allocated as by its backward kernel."""

    @staticmethod
    def forward(ctx: Any, recorder: Any, arithmetic: Any, answer: Any, like: Any, *operands: Tensor) -> object:
        ctx.recorder, ctx.arithmetic, ctx.like = recorder, arithmetic, like
        ctx.save_for_backward(*operands)
        return answer(arithmetic(*operands), *operands)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *others: Tensor) -> Tuple[Optional[Tensor], ...]:
        wanted = ctx.needs_input_grad[4:]

        def gradients() -> List[Optional[Tensor]]:
            # Saved tensors may belong to the caller: their requires_grad must not change outside this call.
            leaves = [t.detach().requires_grad_(need) for t, need in zip(ctx.saved_tensors, wanted)]
            with torch.enable_grad():
                out = ctx.arithmetic(*leaves)
            asked = [leaf for leaf in leaves if leaf.requires_grad]
            found = iter(torch.autograd.grad(out, asked, gradient.to(out.dtype), allow_unused=True))
            given: List[Optional[Tensor]] = []
            for leaf in leaves:
                value = next(found) if leaf.requires_grad else None
                given.append(None if value is None else filled(ctx.like(leaf.detach()), value))
            return given

        return (None, None, None, None, *quietly(ctx.recorder(), gradients))


def run(
    attention: Attention,
    arithmetic: Function,
    answer: Function,
    operands: Tuple[Tensor, ...],
    gradient_like: Callable[[Tensor], Tensor] = torch.empty_like,
) -> Any:
    """Calls the stand-in of a kernel. `attention` is the recording's, or a replacement for it.

    `arithmetic(*operands)` computes the output; `answer(output, *operands)` makes the return value with the kernel's
    layout; `gradient_like(operand)` allocates a gradient.
    """
    return quietly(
        attention.recorder,
        lambda: _Kernel.apply(lambda: attention.recorder, arithmetic, answer, gradient_like, *operands),
    )


def run_without_gradients(attention: Attention, arithmetic: Any, answer: Any, operands: Tuple[Tensor, ...]) -> object:
    """The same for a function without autograd support: its results have no history."""
    with torch.no_grad():
        return quietly(attention.recorder, lambda: answer(arithmetic(*operands), *operands))


def quietly(recorder: Pausing, function: Any) -> Any:
    """Runs `function` unrecorded and without autocast: its operations are not the model's."""
    recorder.paused += 1
    try:
        with torch.autocast("cuda", enabled=False):
            return function()
    finally:
        recorder.paused -= 1
