"""What each attention kernel demands of its operands, in words, and what happens where it is not met.

A contract reads dtypes, shapes and layouts; it runs nothing. The messages are the kernels' own, in the order
in which they check.
"""

from .clauses import RAISES, REPAIRED, SILENT, Clause, Operand, equal_dtypes, release_of, wanted_dtype
from .flash_attn import flash_attn_2, flash_attn_3, flash_attn_4
from .libraries import flex, transformer_engine, undeclared, xformers
from .sdpa import sdpa

__all__ = [
    "RAISES",
    "REPAIRED",
    "SILENT",
    "Clause",
    "Operand",
    "equal_dtypes",
    "flash_attn_2",
    "flash_attn_3",
    "flash_attn_4",
    "flex",
    "release_of",
    "sdpa",
    "transformer_engine",
    "undeclared",
    "wanted_dtype",
    "xformers",
]
