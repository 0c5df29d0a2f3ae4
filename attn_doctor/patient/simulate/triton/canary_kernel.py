"""The canary: a bfloat16 tile is transposed and stored. Importing this imports Triton; only a child does.

Triton 2.1 to 2.3 lower such a tile to i16 and then meet a bf16 (https://github.com/triton-lang/triton/pull/3975
mended it for 3.0), which stops every kernel that uses a transposed bfloat16 tile as an ordinary value:
https://github.com/fla-org/flash-linear-attention/issues/86. A compilation tells more than a version number: it also
judges builds that vendors patched.
"""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def transposed_store(source, target, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    tile = tl.trans(tl.load(source + rows[:, None] * COLUMNS + columns[None, :]))
    tl.store(target + columns[:, None] * ROWS + rows[None, :], tile)
