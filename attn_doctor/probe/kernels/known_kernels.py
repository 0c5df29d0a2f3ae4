"""Names of the kernels that can be tried, which each library's file has, and how much is tried."""

from __future__ import annotations

from enum import Enum

from attn_doctor.model.libraries import libraries


class Mode(str, Enum):
    """How much is tried."""

    QUICK = "quick"
    FULL = "full"


_KERNELS = tuple(kernel for library in libraries() for kernel in library.backends)

BACKENDS = tuple(kernel.name for kernel in _KERNELS)

#: Those that take 8-bit floats.
FLOAT8 = tuple(kernel.name for kernel in _KERNELS if any(one.startswith("float8") for one in kernel.more_dtypes))

#: What a model meets that is told to use it; a single SDPA backend or one linear attention kernel may never be met.
WHOLE = frozenset(kernel.name for kernel in _KERNELS if kernel.whole)
