"""Lets a guard see attention calls at the cost of one more Python call each, also while it is not looking.

No mode of torch is entered: it would slow every operation, and torch.compile would not compile. What torch.compile
traces passes these functions by, so that nothing is compiled twice; its calls are not seen.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Tuple

import torch

from ..trace.meet import functions
from ..trace.meet.sdpa import SIGNATURE
from ..trace.record import frames

if TYPE_CHECKING:
    from .attention import GuardedAttention

PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
"""Of scaled_dot_product_attention; the others are keywords only."""


@contextlib.contextmanager
def hooked(attention: GuardedAttention) -> Iterator[None]:
    """Within this context calls of torch's SDPA and of attention libraries go through `attention`."""
    original = torch.nn.functional.scaled_dot_product_attention

    @functools.wraps(original)
    def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or attention.recorder.paused:
            return original(*args, **kwargs)
        given: Dict[str, Any] = {**dict(zip(PARAMETERS, args)), **kwargs}
        return attention.meet_sdpa(
            SIGNATURE.bind(args, kwargs), given, functools.partial(original, *args, **kwargs), frames.caller(1)
        )

    copies: List[Tuple[Any, str]] = [
        (module, name)
        for where, module in list(sys.modules.items())
        if where == "torch.nn.functional" or where.split(".")[0] != "torch"  # what compiled graphs call stays
        for name, value in list(getattr(module, "__dict__", {}).items())
        if value is original and not name.startswith("_")
    ]
    with functions.hooked(attention):
        for module, name in copies:
            setattr(module, name, scaled_dot_product_attention)
        try:
            yield
        finally:
            for module, name in copies:
                setattr(module, name, original)
