"""Names of dtypes: torch's own, the spellings accepted on the command line, and short ones for tables."""

from __future__ import annotations

from attn_doctor.errors import BadInput

#: Spelling accepted on the command line -> torch's name.
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
#: torch's name -> short name for a table.
SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "fp8"}
HALVES = ("bfloat16", "float16")


def dtype_named(text: str | None, option: str) -> str | None:
    """torch's name of the floating-point dtype that an option gives, for the model to be traced in.

    `option` names the option in the error. Raises BadInput for text that is no floating-point dtype.
    """
    found = SPELLED.get(text.lower()) if text is not None else None
    if text is not None and found not in ("float16", "bfloat16", "float32"):
        raise BadInput(f"{text!r} is no dtype for this", about=f"{option} {text}", hint="float16, bfloat16 or float32.")
    return found
