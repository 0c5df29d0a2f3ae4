"""SHA-256 without OpenSSL, whose five megabytes `hashlib` loads at every start for a few short texts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha256 as sha256
else:
    # CPython's own, of which hashlib makes its fallback: https://github.com/python/cpython/blob/main/Lib/hashlib.py
    try:
        if sys.version_info >= (3, 12):
            from _sha2 import sha256
        else:
            from _sha256 import sha256
    except ImportError:  # another Python, or one that was built without
        from hashlib import sha256


def hex_digest(text: str) -> str:
    """The SHA-256 of a text, which may hold a path that is no UTF-8."""
    return sha256(text.encode(errors="surrogateescape")).hexdigest()
