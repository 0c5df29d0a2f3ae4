"""torch's varlen_attn, FlashAttention over packed sequences: its contract, and its call in trials.

Source: pytorch torch/nn/attention/varlen.py (2.10 to 2.13).
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Callable, List

from ..dtypes import HALVES
from .contract import RAISES, Call, Clause, no_mask, of_q
from .library import Backend, Library

if TYPE_CHECKING:
    from torch import Tensor

    from ..kernels.problems import Problem


def clauses(call: Call) -> List[Clause]:
    q = call.kinds[0]
    dim = call.operands["q"].head_dim
    found = [
        Clause("torch has it", call.release("torch") >= (2, 10), RAISES, "varlen_attn is new in torch 2.10"),
        *of_q(call),
        Clause("q is float16 or bfloat16", q in HALVES, RAISES, "FlashAttention only support fp16 and bf16 data type"),
        *no_mask(call, "varlen_attn takes no mask"),
    ]
    if call.options.get("described"):
        packed = bool(call.options.get("packed"))
        found.append(Clause("sequences are packed", packed, RAISES, "varlen_attn takes packed sequences alone"))
        found.append(Clause("a GPU from 8.0 on", call.at_least >= (8, 0), RAISES, "it needs a GPU from 8.0 on"))
    if isinstance(dim, int):
        message = "FlashAttention forward only supports head dimension at most 256"
        found.append(Clause("the head dimension is at most 256", dim <= 256, RAISES, message, ("q",)))
    return found


def prepare(problem: Problem, backend: Backend) -> Callable[[], Tensor]:
    from torch.nn.attention.varlen import varlen_attn

    from . import calls

    ends, longest = calls.ends_of(problem)
    window = "window_size" in inspect.signature(varlen_attn).parameters
    causal = {"window_size": (-1, 0)} if window else {"is_causal": True}

    def compute() -> Tensor:
        out = varlen_attn(*calls.packed(problem), ends, ends, longest, longest, **causal)
        return calls.output_of(out).transpose(0, 1)[None]

    return compute


LIBRARY = Library(
    name="varlen",
    order=5,
    module="torch.nn.attention.varlen",
    functions=((r"torch\.nn\.attention\.varlen$", r"varlen_attn$"),),
    clauses=clauses,
    backends=(
        Backend(
            name="torch-varlen",
            title="torch varlen_attn",
            calls="varlen",
            takes=("tail", "empty-documents"),
            whole=True,
        ),
    ),
)
