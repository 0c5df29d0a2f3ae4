"""Triton launches: the operands of each kernel, and the inputs of its outputs.

`Launches.note` is called for every launch, by the recorder of a simulated GPU or by the hook below. A launch shows no
operation, so the tensors it writes are linked to those it reads.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

import torch

from ..record import frames, ops
from ..record.graph import PROJECTED
from .attention import Attention

if TYPE_CHECKING:
    from types import FrameType

    from ..answer import Launch

_ALLOCATIONS = frozenset(
    "aten::" + name
    for name in [
        "empty",
        "empty_strided",
        "empty_like",
        "new_empty",
        "new_empty_strided",
        "zeros",
        "zeros_like",
        "new_zeros",
    ]
)


class Launches:
    def __init__(self, attention: Attention) -> None:
        self.attention = attention
        self.seen: List[Launch] = []
        self.count = 0

    def note(self, kernel: str, arguments: Dict[str, Any], frame: Optional[FrameType] = None) -> None:
        """One launch: the kernel's name, and its arguments by name."""
        rec = self.attention.recorder
        if rec.paused:
            return
        tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
        self.count += 1
        self.attention.mention(kernel, tensors)
        entry: Launch = {
            "kernel": kernel,
            "dtypes": {name: ops.short(t.dtype) for name, t in tensors.items()},
            "at": frames.described(frames.site_of(frame or frames.caller(1))),
            "module": rec.module,
        }
        if len(self.seen) < 256 and all(e["kernel"] != kernel or e["dtypes"] != entry["dtypes"] for e in self.seen):
            self.seen.append(entry)
        reads: List[torch.Tensor] = []
        writes: List[torch.Tensor] = []
        for tensor in tensors.values():
            if tensor.dtype not in ops.FLOATS:
                continue
            node = rec.node(tensor)
            made = node.event is not None and ops.kind_of(node.event.op).name in _ALLOCATIONS
            (writes if made and not node.flags & PROJECTED else reads).append(tensor)
        if reads and writes:
            rec.link(writes, reads, kernel, frames.site_of(frame or frames.caller(1)))


@contextlib.contextmanager
def hooked(launches: Launches) -> Iterator[None]:
    """Records the launches that Triton really makes. Without a GPU, simulate/triton/record.py records them.

    Does nothing when Triton is missing or cannot be imported.
    """
    try:
        from triton.runtime import jit
    except Exception:
        yield
        return
    launch = jit.JITFunction.run

    def run(self: Any, *args: object, **kwargs: object) -> Any:
        names = list(getattr(self, "arg_names", ()))
        bound = dict(zip(names, args))
        bound.update({k: v for k, v in kwargs.items() if k in names})
        launches.note(getattr(self.fn, "__name__", "kernel"), bound, frames.caller(1))
        return launch(self, *args, **kwargs)

    jit.JITFunction.run = run
    try:
        yield
    finally:
        jit.JITFunction.run = launch
