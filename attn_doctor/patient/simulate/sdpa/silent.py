"""What a backend is known to do wrong with a call that it takes: errors that come afterwards, and wrong numbers without
one. Each rule names its source; recipes match on these words.
"""

from __future__ import annotations

from typing import Callable, Optional, Tuple

from ...dtypes import HALVES
from . import backends
from .rules import CUDNN, EFFICIENT, MATH, Call, Version

_WRAPS = 1 << 32


def known_faults(backend: Optional[str], call: Call, version: Version) -> Tuple[str, ...]:
    """Known faults of this backend with such a call, in words."""
    if backend == MATH:
        error = backends.math(call)
        return ("raises afterwards: {}".format(error),) if error is not None else ()
    found = (rule(backend, call, version) for rule in _RULES)
    return tuple(words for words in found if words is not None)


def _float_mask(backend: Optional[str], call: Call, version: Version) -> Optional[str]:
    """Seen on an H200 with torch 2.11, whose dtype check accepts such masks beside half-precision q, k and v."""
    if call.mask is None or call.mask.dtype != "float32" or call.query.dtype not in HALVES:
        return None
    if backend == CUDNN:
        return "cuDNN returns wrong values without a word for a float32 additive mask beside half q, k and v"
    if backend == EFFICIENT:
        return "raises afterwards: invalid dtype for bias - should match query's dtype"
    return None


def _long_mask(backend: Optional[str], call: Call, version: Version) -> Optional[str]:
    """The offset of a mask's row is computed in 32 bits: https://github.com/pytorch/pytorch/issues/187227, seen on an
    H100 with torch 2.11 (66,000 by 66,000: right up to row 65,075), reported from 2.9 to a nightly build of 2.14."""
    if backend != EFFICIENT or call.mask is None:
        return None
    stride = call.mask.strides[-2] if call.mask.strides else (call.mask.shape[-1] if call.mask.shape[-2] > 1 else 0)
    if stride == 0 or (call.query.shape[-2] - 1) * stride < _WRAPS:
        return None
    words = (
        "the memory-efficient kernel reads the mask of rows from {:,} on at wrong places, without a word: "
        "row times {:,} passes 2^32"
    ).format(-(-_WRAPS // stride), stride)
    return words + (" (reported up to 2.14's nightly builds)" if version >= (2, 14) else "")


_RULES: Tuple[Callable[[Optional[str], Call, Version], Optional[str]], ...] = (
    _float_mask,
    _long_mask,
)
