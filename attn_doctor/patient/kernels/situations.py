"""What a trial varies besides dtype, head dimension and form: layouts, lengths and values that models use, and ways to
call. Does not need torch.

Each exists because a kernel was reported wrong exactly there; random numbers in contiguous tensors of one length show
none of these faults. shapes.py makes operands of them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping, Tuple

CAUSAL = ("causal",)
PLAIN = ("dense", "causal")


@dataclasses.dataclass(frozen=True)
class Situation:
    """One situation. Fields that are empty are as in every other trial."""

    name: str = ""
    words: str = ""
    forms: Tuple[str, ...] = ()
    """The forms with which it is tried, the most telling first."""
    layout: str = ""
    """fused: q, k and v are slices of one projection. transposed: (batch, length, heads, head_dim) in memory. expanded:
    k and v repeat one head in place (stride 0). columns: k is stored (…, head_dim, length)."""
    q_length: int = 0
    kv_length: int = 0
    heads: int = 0
    v_share: int = 1
    """v has the head dimension divided by this."""
    values: str = ""
    """one-hot: each query attends to one key alone (P = 1). tied: all keys are equal. large: scores of ±50. spread:
    channels of different sizes, outliers, a first token that attracts all."""
    documents: str = ""
    """empty: packed sequences, some without a token. tail: tokens behind the last packed sequence."""
    dead_rows: bool = False
    """Some queries see no key at all."""
    sink: bool = False
    """One more key without a value, and a learned score for each head, as a mask."""
    judged_rows: bool = False
    """Output too large for a reference: some rows are judged."""
    calls: str = ""
    """again: the same call before, in another layout and with other values. graph: captured in a CUDA graph with other
    values, then replayed. deterministic: with the library's deterministic backward pass."""
    directions: Tuple[str, ...] = ("train", "forward")
    asked: bool = False
    """Only backends that name it (`Backend.takes`) can be asked for it."""
    ordinary: bool = True
    """Ordinary training makes such calls."""
    recorded: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """A call of the user's model (recorded.py); empty for the others."""

    @property
    def degenerate(self) -> bool:
        """True gradients vanish or nearly so: an error is held against what the gradient is made of."""
        return bool(self.values)

    def as_json(self) -> Dict[str, object]:
        """What a result says of it; nothing for the usual one."""
        if not self.name:
            return {}
        return {"situation_words": self.words, "rare": not self.ordinary, "calls": self.recorded.get("calls")}

    def __hash__(self) -> int:
        return hash(self.name)


_ALL = (
    Situation("dead-rows", "some queries see no key", ("bool-mask",), dead_rows=True, ordinary=False),
    Situation("fused", "q, k and v sliced from one projection", ("causal", "gqa", "dense", "varlen"), layout="fused"),
    Situation(
        "again",
        "after the same call in another layout and with other values",
        ("causal", "dense", "bool-mask"),
        layout="fused",
        calls="again",
    ),
    Situation(
        "tail", "with tokens behind the last packed sequence", ("varlen",), documents="tail", asked=True, ordinary=False
    ),
    Situation(
        "empty-documents",
        "with packed sequences of no token",
        ("varlen",),
        documents="empty",
        asked=True,
        ordinary=False,
    ),
    Situation("cross", "fewer queries than keys", ("bool-mask", "dense"), q_length=96, kv_length=352),
    Situation(
        "expanded",
        "k and v expanded in place (stride 0), one key more than a multiple of 32",
        ("bool-mask", "half-mask", "causal"),
        layout="expanded",
        q_length=289,
        kv_length=289,
        asked=True,
        ordinary=False,
    ),
    Situation(
        "off-tile",
        "lengths off every tile",
        ("causal", "bool-mask", "dense"),
        layout="transposed",
        q_length=333,
        kv_length=333,
    ),
    Situation("one-hot", "each query attending to one key alone", PLAIN, values="one-hot"),
    Situation("large", "scores of up to 50", CAUSAL, values="large"),
    Situation("spread", "values spread as in trained models", CAUSAL, values="spread"),
    Situation("tied", "all keys equal", PLAIN, values="tied", ordinary=False),
    Situation("decode", "one query, as in decoding", ("dense",), q_length=1, kv_length=577, directions=("forward",)),
    Situation("transposed", "q, k and v stored (batch, length, heads, head dim)", PLAIN, layout="transposed"),
    Situation("columns", "k stored with its length last", ("dense",), layout="columns", asked=True, ordinary=False),
    Situation("sink", "with a learned sink as one more key", ("half-mask",), sink=True, asked=True, ordinary=False),
    Situation("narrow-v", "v of half the head dimension", PLAIN, v_share=2, asked=True, ordinary=False),
    Situation("graph", "replayed from a CUDA graph", PLAIN, calls="graph", directions=("forward",)),
    Situation(
        "deterministic", "asked to be deterministic", CAUSAL, calls="deterministic", directions=("train",), asked=True
    ),
    Situation(
        "long-mask",
        "a mask of 66,048 rows",
        ("bool-mask",),
        q_length=66048,
        kv_length=66048,
        heads=1,
        judged_rows=True,
        directions=("forward",),
        asked=True,
        ordinary=False,
    ),
)

NAMED: Dict[str, Situation] = {one.name: one for one in (Situation(), *_ALL)}
"""Name -> situation, those that fail most often first; "" is the usual one. recorded.py adds to it."""


def named(name: str) -> Situation:
    return NAMED[name]
