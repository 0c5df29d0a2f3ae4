"""The short contracts: xformers, FlexAttention, Transformer Engine, and kernels that state none.

Sources: facebookresearch/xformers xformers/ops/fmha/common.py, pytorch torch/nn/attention/_utils.py.
"""

from __future__ import annotations

from typing import List, Optional

import torch

from .clauses import RAISES, SILENT, Clause, Operands, equal_dtypes


def transformer_engine(operands: Operands) -> List[Clause]:
    """DotProductAttention.forward of transformer_engine.pytorch; its kernels' own limits are not known here.

    https://github.com/NVIDIA/TransformerEngine/tree/main/transformer_engine/pytorch/attention/dot_product_attention
    """
    return [equal_dtypes(operands, None, RAISES, "Queries, keys and values must have the same data type!")]


def xformers(operands: Operands) -> List[Clause]:
    q, k, v = (operands[r].dtype for r in "qkv")
    text = (
        "Query/Key/Value should either all have the same dtype, or (in the quantized case) Key/Value should have "
        "dtype torch.int32\n  query.dtype: {}\n  key.dtype  : {}\n  value.dtype: {}".format(q, k, v)
    )
    clauses = [equal_dtypes(operands, None, RAISES, text)]
    bias = operands.get("mask")
    if bias is not None:
        clauses.append(
            Clause(
                "attn_bias has the dtype of q",
                bias.dtype == q,
                RAISES,
                "invalid dtype for bias - should match query's dtype",
                ("mask",),
            )
        )
    return clauses


def flex(operands: Operands) -> List[Clause]:
    q, k, v = (operands[r].dtype for r in "qkv")
    text = (
        "Expected query, key, and value to have the same dtype, but got query.dtype: {}, key.dtype: {}, and "
        "value.dtype: {} instead.".format(q, k, v)
    )
    return [equal_dtypes(operands, None, RAISES, text)]


def undeclared(operands: Operands, autocast: Optional[torch.dtype]) -> List[Clause]:
    """A kernel that states no contract: unequal operands reach it, and nothing complains."""
    if torch._C._current_autograd_node() is not None:
        # A library's own backward functions keep accumulators in float32 beside half inputs, as they mean to.
        return []
    return [equal_dtypes(operands, autocast, SILENT)]
