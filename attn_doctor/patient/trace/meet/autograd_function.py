"""torch.autograd.Function, through which most hand-written kernels are called.

A Function whose forward takes q, k and v is an attention call, whatever its library. For any other Function only its
graph matters: its results descend from its operands, although the kernel inside shows no operation.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Dict, Iterator, Optional

import torch

from ..record import frames
from ..record.graph import PROJECTED
from .attention import Attention
from .operands import undeclared
from .roles import Signature


@contextlib.contextmanager
def hooked(attention: Attention) -> Iterator[None]:
    rec = attention.recorder
    function = torch.autograd.Function
    original = function.__dict__["apply"]
    signatures: Dict[Any, Optional[Signature]] = {}

    def signature_of(cls: Any) -> Optional[Signature]:
        if cls not in signatures:
            # Old style passes ctx first; new style leaves it to setup_context.
            own_context = cls.setup_context is torch.autograd.Function.setup_context
            signatures[cls] = Signature.of(cls.forward, skip=1 if own_context else 0)
        return signatures[cls]

    def apply(cls: Any, /, *args: object, **kwargs: object) -> object:
        # A classmethod until torch 2.14, later a C method: both are bound in the same way.
        run = functools.partial(original.__get__(None, cls), *args, **kwargs)
        if rec.paused:
            return run()
        frame = frames.caller(1)
        name = cls.__name__ + ".apply"
        signature = signature_of(cls)
        if signature is not None:
            out = attention.attend(
                name,
                cls.__module__.split(".")[0],
                signature.bind(args, kwargs),
                undeclared,
                run,
                frame=frame,
            )
        else:
            out = run()
            first = out[0] if isinstance(out, (list, tuple)) and out else out
            node = rec.nodes.get(first) if isinstance(first, torch.Tensor) else None
            if node is None or not node.flags & PROJECTED:
                rec.link(out, list(args) + list(kwargs.values()), name, frames.site_of(frame))
        if rec.heals:
            out = rec.heal(name, out, frame)
        return out

    function.apply = classmethod(apply)
    try:
        yield
    finally:
        function.apply = original
