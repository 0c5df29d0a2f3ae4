"""Names of dtypes: as people write them, as torch does, and short ones for lines and tables."""

from __future__ import annotations

#: By what a person may write, torch's own name.
SPELLED = {
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp16": "float16",
    "float16": "float16",
    "half": "float16",
    "fp32": "float32",
    "float32": "float32",
    "float": "float32",
    "fp64": "float64",
    "float64": "float64",
    "fp8": "float8_e4m3fn",
    "float8_e4m3fn": "float8_e4m3fn",
    "bool": "bool",
}
#: Of a dtype in which kernels are tried: the word in a table.
SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "fp8"}
HALVES = ("bfloat16", "float16")
