"""Triton kernels compiled for a GPU that is not present (`check --kernels` without one).

Field names equal the keys of the format kernels/1 (formats/kernels_v1.py).
"""

from __future__ import annotations

from attn_doctor.model.gpu_state import LEFT_OUT, PlannedGpu
from attn_doctor.quick_dataclasses import dataclass, field

#: Outcomes of a kernel that was compiled but not run, in addition to the compiler's own.
COMPILES, NOT_LOOKED = "compiles", "could not look"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledBackend:
    """Result of compiling the kernels of one backend for a GPU that is not present."""

    name: str
    title: str
    kernels: int
    compile: int
    """Number of kernels that compile."""
    not_reached: int
    error: str | None
    """Why some kernels were not compiled."""
    nothing: str | None = field(default=None, metadata=LEFT_OUT)
    """The reason why there was no kernel to compile although everything was examined."""

    @property
    def by_calls(self) -> bool:
        """True when the calls were constructed for the trial, as for FlexAttention and for a user's own function."""
        return _by_calls(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledKernel:
    """Result of compiling one kernel."""

    backend: str
    kernel: str
    place: str | None = field(default=None, metadata=LEFT_OUT)
    """file:line of the launch."""
    outcome: str
    message: str
    cause: str
    required_bytes: int | None
    limit_bytes: int | None
    configurations: int | None = field(default=None, metadata=LEFT_OUT)
    left_out: int | None = field(default=None, metadata=LEFT_OUT)
    call: str | None = field(default=None, metadata=LEFT_OUT)
    """The first call observed to launch it."""
    mended_by: str | None = field(default=None, metadata=LEFT_OUT)
    """Changed arguments of that call with which its kernels do compile."""

    @property
    def by_calls(self) -> bool:
        """As for its backend."""
        return _by_calls(self.backend)

    @property
    def looked_at(self) -> bool:
        """False when the time was up before it was compiled."""
        return self.outcome != NOT_LOOKED


def _by_calls(backend: str) -> bool:
    return backend == "flex" or ":" in backend


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """Triton kernels compiled for a GPU that is not present."""

    gpu: PlannedGpu
    why_not: str | None
    backends: tuple[CompiledBackend, ...]
    kernels: tuple[CompiledKernel, ...]
