"""Names of the kernels that can be tried, of dtypes, and of how much is tried: the same as in inside/kernels/, where
they are run."""

from __future__ import annotations

from enum import Enum


class Mode(str, Enum):
    """How much is tried."""

    QUICK = "quick"
    FULL = "full"


BACKENDS = (
    "sdpa-default",
    "sdpa-flash",
    "sdpa-efficient",
    "sdpa-cudnn",
    "sdpa-math",
    "flash-attn-2",
    "flash-attn-3",
    "flash-attn-4",
    "xformers",
    "transformer-engine",
    "fla-gated-delta-rule",
    "fla-gla",
    "fla-gsa",
    "fla-rwkv7",
    "flex",
)

DTYPES = {
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp16": "float16",
    "float16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float32": "float32",
    "fp64": "float64",
    "float64": "float64",
    "fp8": "float8_e4m3fn",
    "float8_e4m3fn": "float8_e4m3fn",
    "bool": "bool",
}
