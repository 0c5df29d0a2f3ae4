"""torch.nn.functional.scaled_dot_product_attention, torch's own attention operations, and those of torch.library.

SDPA checks its dtypes before dispatching, so it is recognized as a torch function; calls inside torch functions
(nn.MultiheadAttention) are recognized through the name in torch.nn.functional.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional

import torch

from ...libraries import sdpa as library
from ...libraries import stand_in
from ...libraries.contract import Call
from ..record import frames
from .attention import Attention
from .operands import kind_of, undeclared
from .roles import Signature, roles_of
from .sdpa_backend import ARGUMENTS, Choices

if TYPE_CHECKING:
    from types import FrameType

    from torch._ops import OpOverload

    from ...arguments import Keywords, Positional

_NAMES = ["query", "key", "value", "attn_mask"]
SIGNATURE = Signature(_NAMES, {"q": "query", "k": "key", "v": "value", "mask": "attn_mask"})
_OWN_NAMESPACES = ("aten", "prims", "prim", "profiler", "debugprims", "inductor", "higher_order")


@contextlib.contextmanager
def hooked(attention: Attention) -> Iterator[None]:
    rec = attention.recorder
    functional = torch.nn.functional
    original = functional.scaled_dot_product_attention

    choices = Choices(attention.conditions.gpu)

    def attend(args: Positional, kwargs: Keywords, frame: FrameType) -> object:
        chosen: Any = None

        def backend(autocast: object) -> Any:
            nonlocal chosen
            chosen = choices.of(args, kwargs, autocast)
            return choices.as_json(chosen) if chosen is not None else None

        def contract(operands: Any, autocast: object) -> Any:
            if not {"q", "k", "v"} <= set(operands):
                return []
            call = Call(operands, attention.conditions.capability, {"torch": str(torch.__version__)})
            return library.clauses(call, kind_of(autocast), chosen)

        def run() -> object:
            if chosen is None or not attention.conditions.simulated:
                return original(*args, **kwargs)
            with _math():
                out = original(*args, **kwargs)
            query = args[0] if args else kwargs["query"]
            return stand_in.quietly(rec, lambda: library.laid_out(out, query.detach(), chosen.backend))

        return attention.attend(
            "scaled_dot_product_attention",
            "torch",
            SIGNATURE.bind(args, kwargs),
            contract,
            run,
            frame=frame,
            backend=backend,
            given={**dict(zip(ARGUMENTS, args)), **kwargs},
        )

    def special(func: object, args: Positional, kwargs: Keywords) -> Any:
        return attend(args, kwargs, frames.caller(2))

    @functools.wraps(original)
    def scaled_dot_product_attention(*args: object, **kwargs: object) -> object:
        if attention.depth or rec.paused:
            return original(*args, **kwargs)
        return attend(args, kwargs, frames.caller(1))

    rec.special[original] = special
    rec.at_op = _Ops(attention)
    functional.scaled_dot_product_attention = scaled_dot_product_attention
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = original
        rec.special.pop(original, None)
        rec.at_op = None


@contextlib.contextmanager
def _math() -> Iterator[None]:
    """A CPU has only flash and math: when code requests another backend, which the GPU has, math computes."""
    cuda = torch.backends.cuda
    if cuda.math_sdp_enabled():
        yield
        return
    cuda.enable_math_sdp(True)
    try:
        yield
    finally:
        cuda.enable_math_sdp(False)


class _Ops:
    """Attention operations as the dispatcher sees them: torch's fused kernels, and any torch.library operation."""

    def __init__(self, attention: Attention) -> None:
        self.attention = attention
        self.signatures: Dict[object, Signature] = {}

    def __call__(self, op: OpOverload, args: Positional, kwargs: Keywords) -> object:
        rec = self.attention.recorder
        if args is None:
            signature = self._signature(op)
            if signature is not None:
                self.signatures[op] = signature
            rec.claims[op] = signature is not None
            return signature is not None
        if self.attention.depth and self.attention.conditions.simulated and op.namespace in _OWN_NAMESPACES:
            return op(*args, **kwargs)  # the CPU's kernel, not the one that would run on the GPU
        tensors = self.signatures[op].bind(args, kwargs)
        return self.attention.attend(
            str(op),
            op.namespace,
            tensors,
            undeclared,
            functools.partial(op, *args, **kwargs),
            frame=frames.caller(2),
        )

    @staticmethod
    def _signature(op: OpOverload) -> Optional[Signature]:
        schema = getattr(op, "_schema", None)
        if schema is None:
            return None
        name = schema.name.split("::")[-1]
        names = [argument.name for argument in schema.arguments]
        roles = roles_of(names)
        if roles is None or "backward" in name or "fused_sdp_choice" in name:
            return None
        if op.namespace in _OWN_NAMESPACES and "attention" not in name:
            return None
        return Signature(names, roles)
