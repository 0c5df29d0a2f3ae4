"""FlexAttention: what torch.nn.attention.flex_attention gives back.

Source: pytorch torch/_higher_order_ops/flex_attention.py and torch/nn/attention/flex_attention.py (2.5 to 2.13).
"""

from __future__ import annotations

from typing import Any


def answer(given: Any, out: Any, query: Any, aux_output: Any) -> Any:
    """The output, its dimensions in memory in the order of query's; each row's log-sum-exp in one of two forms.

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
