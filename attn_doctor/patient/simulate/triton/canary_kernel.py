"""The canary kernel: transposes and stores a bfloat16 tile. Importing this file imports Triton, so only a child does
it.

Triton 2.1 to 2.3 lower such a tile to i16 and then encounter a bf16 (fixed for 3.0 by
https://github.com/triton-lang/triton/pull/3975), so every kernel fails that uses a transposed bfloat16 tile as an
ordinary value: https://github.com/fla-org/flash-linear-attention/issues/86. A compilation is better evidence than a
version number: it also covers builds patched by vendors.
"""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def transposed_store(source, target, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    tile = tl.trans(tl.load(source + rows[:, None] * COLUMNS + columns[None, :]))
    tl.store(target + columns[:, None] * ROWS + rows[None, :], tile)
