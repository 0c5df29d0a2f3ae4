"""Names of dtypes as torch has them, and other spellings. model/dtypes.py is the doctor's; a law compares both."""

from __future__ import annotations

HALVES = ("float16", "bfloat16")
EIGHT_BITS = "float8_e4m3fn"
"""Few kernels support it; its problems contain scales, and the output is bfloat16."""
FLOAT8 = (EIGHT_BITS, "float8_e5m2")

ALIASES = {"bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "float": "float32"}
"""What people write -> torch's name."""

C10 = {
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "bool": "bool",
}
"""torch's name -> how torch's C++ prints it in messages."""

SCALAR_TYPES = {"float16": "Half", "bfloat16": "BFloat16", "float32": "Float"}
"""torch's name -> how torch's C++ lists the dtypes that a kernel takes."""
