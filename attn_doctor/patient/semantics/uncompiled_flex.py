"""FlexAttention as the small copy runs it on a CPU: not compiled, which computes the same in a tenth of the time.

Inductor's C++ also refuses small sizes there. torch has no backward pass of FlexAttention on a CPU, either way.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator

import torch

_SWITCH = "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG"
"""torch's own, from 2.9 on; without it each call compiles a graph that runs eagerly."""


@contextlib.contextmanager
def on_cpu(request: Dict[str, Any]) -> Iterator[None]:
    """Within this context torch.compile gives FlexAttention back as it is; does nothing on a GPU."""
    try:
        from torch.nn.attention import flex_attention as flex
    except ImportError:  # torch before 2.5
        flex = None
    if request.get("device") == "cuda" or flex is None:
        yield
        return
    original, switch = torch.compile, getattr(flex, _SWITCH, None)
    own = (flex.flex_attention, flex.create_block_mask)

    def compile_others(model: Any = None, *args: Any, **options: Any) -> Any:
        return model if any(model is one for one in own) else original(model, *args, **options)

    torch.compile = compile_others
    if switch is not None:
        setattr(flex, _SWITCH, True)
    try:
        yield
    finally:
        torch.compile = original
        if switch is not None:
            setattr(flex, _SWITCH, switch)
