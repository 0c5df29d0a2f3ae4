"""A trial: a backend, a dtype, a head dimension, a form of attention, and a direction.

Does not need torch, so that a node without one can list the trials.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Optional, Tuple

from . import situations

DTYPES = ("bfloat16", "float16", "float32")
HEAD_DIMS = (128, 64, 96, 192, 256)
FORMS = ("dense", "causal", "gqa", "varlen", "bool-mask", "half-mask", "fp32-mask", "window", "softcap")
"""Dropout is 0 in each: with dropout no two kernels give equal results."""
DIRECTIONS = ("train", "forward")
"""train: forward and backward. forward: under no_grad."""

FORM_WORDS = {
    "dense": "without a mask",
    "causal": "causal",
    "gqa": "causal, with fewer key-value heads",
    "varlen": "with packed sequences",
    "bool-mask": "with a boolean mask",
    "half-mask": "with a mask in the query's half precision",
    "fp32-mask": "with a float32 mask",
    "window": "with a sliding window",
    "softcap": "with soft-capped scores",
}


@dataclasses.dataclass(frozen=True, order=True)
class Cell:
    """One trial."""

    backend: str
    dtype: str
    head_dim: int
    form: str
    direction: str
    variant: str = ""
    """The configuration to which a self-tuning kernel is fixed, such as "4 warps"."""
    situation: str = ""
    """The name of a layout, of values or of a way to call (situations.py); "" is the usual one."""

    @property
    def axes(self) -> Tuple[object, ...]:
        return (self.backend, self.dtype, self.head_dim, self.form, self.direction)

    @property
    def name(self) -> str:
        return " ".join(str(one) for one in (*self.axes, self.variant, self.situation) if one != "")

    @property
    def words(self) -> str:
        """Description of the call: "bfloat16, head dim 128, causal, with gradients"."""
        direction = "with gradients" if self.direction == "train" else "without gradients"
        words = [self.dtype, "head dim {}".format(self.head_dim), FORM_WORDS[self.form]]
        words += [situations.named(self.situation).words] if self.situation else []
        return ", ".join([*words, direction])

    def as_json(self) -> Dict[str, object]:
        return {name: value for name, value in dataclasses.asdict(self).items() if name != "situation" or value}


def from_json(written: Dict[str, Any]) -> Cell:
    return Cell(**{field.name: written[field.name] for field in dataclasses.fields(Cell) if field.name in written})


@dataclasses.dataclass(frozen=True)
class Place:
    """The GPU and the installed versions, for a contract."""

    capability: Optional[Tuple[int, int]]
    """None when not on an NVIDIA GPU."""
    gpu_name: str
    torch_version: str
    cudnn: Optional[int]
    """As in 91900; None when unknown."""
    versions: Dict[str, str]
    """Distribution -> installed version."""
