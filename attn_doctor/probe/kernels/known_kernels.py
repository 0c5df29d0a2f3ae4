"""Names of the kernels that can be tried, from the files of their libraries, and the modes of trials."""

from __future__ import annotations

from enum import Enum

from attn_doctor.model.libraries import libraries


class Mode(str, Enum):
    """Number of trials."""

    QUICK = "quick"
    FULL = "full"


_KERNELS = tuple(kernel for library in libraries() for kernel in library.backends)

BACKENDS = tuple(kernel.name for kernel in _KERNELS)

#: Kernels that accept 8-bit floats.
FLOAT8 = tuple(kernel.name for kernel in _KERNELS if any(one.startswith("float8") for one in kernel.more_dtypes))

#: Kernels that a model uses as a whole; a single SDPA backend or one linear attention kernel may never be used.
WHOLE = frozenset(kernel.name for kernel in _KERNELS if kernel.whole)
