"""No look for garbage while packages are imported: what an import makes stays. A seventh of the time of torch's."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Within it nothing is collected; afterwards what is there is passed over, and the collector is as it was."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()
