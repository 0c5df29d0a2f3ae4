"""Transformer Engine: the contract of its DotProductAttention, and its return value.

Source: NVIDIA/TransformerEngine, transformer_engine/pytorch/attention/dot_product_attention (2026-08).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, List

from ..dtypes import HALVES
from .contract import RAISES, Call, Clause, equal_dtypes
from .library import Backend, Library

if TYPE_CHECKING:
    from torch import Tensor


def clauses(call: Call) -> List[Clause]:
    """The asserts of forward; for a cell also the limits of its fast backends. The limits of its kernels are not known
    here.
    """
    k, v = call.operands["k"], call.operands["v"]
    found = [
        equal_dtypes(
            call.operands, None, RAISES, "Queries, keys and values must have the same data type!", "AssertionError"
        ),
        Clause(
            "k and v have one batch size, length and number of heads",
            k.shape[:-1] == v.shape[:-1],
            RAISES,
            "Keys and values must have the same batch size, sequence length and number of heads!",
            ("v",),
            "AssertionError",
        ),
    ]
    if not call.options.get("described"):
        return found
    old = call.at_least < (8, 0)
    words = "DotProductAttention only supports FP16 and BF16 data types"
    found.append(Clause("the GPU is of 8.0 or later", not old, RAISES, "it needs compute capability 8.0 or later"))
    found.append(Clause("q is float16 or bfloat16", call.operands["q"].kind in HALVES, RAISES, words))
    mask = call.operands.get("mask")
    taken = (mask is None or mask.kind == "bool") and not call.options.get("softcap")
    found.append(Clause("no such mask or cap", taken, RAISES, "DotProductAttention takes no such mask or cap"))
    return found


def answer(out: Tensor) -> Tensor:
    """(…, heads, head_dim) as (…, heads * head_dim), with the query's order of dimensions."""
    return out.contiguous().flatten(-2)


LIBRARY = Library(
    name="transformer-engine",
    order=50,
    module="transformer_engine",
    distributions=("transformer-engine",),
    imports="transformer_engine.pytorch",
    in_messages=(r"\b[Tt]ransformer[ _-]?[Ee]ngine\b",),
    sources=("TransformerEngine",),
    parts=("transformer_engine_extensions", "transformer_engine_torch"),
    symbols=(("nvte_", "libtransformer_engine"),),
    methods=((r"transformer_engine\.pytorch\.attention(\.|$)", "DotProductAttention", "forward"),),
    clauses=clauses,
    answer=lambda met: answer(met.out),
    backends=(Backend(name="transformer-engine", title="Transformer Engine"),),
)
