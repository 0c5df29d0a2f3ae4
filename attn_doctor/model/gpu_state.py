"""The state of a GPU at one moment and its Xids, as NVML reports them; and a GPU that is only named.

Field names equal the keys of the format kernels/1 (formats/kernels_v1.py).
"""

from __future__ import annotations

from attn_doctor.quick_dataclasses import dataclass, field

#: Marks a field that JSON omits when it is empty.
LEFT_OUT = {"left_out": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedGpu:
    """The GPU named in a plan on a node without one."""

    name: str | None = None
    compute_capability: str
    shared_memory_bytes: int | None = None
    memory_mib: int | None = None
    multi_processor_count: int | None = None

    @property
    def words(self) -> str:
        """The GPU's name; its compute capability when it was given by that alone."""
        if self.name in (None, self.compute_capability):
            return f"compute capability {self.compute_capability}"
        return str(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedRows:
    """Rows of GPU memory that replaced faulty ones."""

    corrected: int
    uncorrected: int
    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """State of a GPU at one moment, as NVML reports it; None where NVML reports nothing."""

    index: int
    name: str | None = None
    compute_capability: str | None = None
    memory_mib: int | None = None
    mig: str | None = None
    clock_mhz: int | None = None
    max_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    power_watts: int | None = None
    power_limit_watts: int | None = None
    power_default_watts: int | None = None
    temperature: int | None = None
    """Degrees Celsius."""
    ecc_errors: int | None = None
    remapped_rows: RemappedRows | None = None
    utilization: int | None = None
    """Percent."""
    memory_used_mib: int | None = None
    processes: int | None = None
    error: str | None = field(default=None, metadata=LEFT_OUT)
    """The NVML error, when NVML reports nothing about this GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """An Xid reported by a GPU; `at` is in seconds since the epoch."""

    number: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Xids:
    """The Xids of one GPU while kernels ran."""

    why_not: str | None
    """Why the Xid listener did not start; None when it ran."""
    seen: tuple[XidEvent, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Each Xid number once, in order of first occurrence."""
        return tuple(dict.fromkeys(one.number for one in self.seen))


NO_LISTENER = Xids(why_not="Xid listener did not start")


@dataclass(frozen=True, slots=True, kw_only=True)
class XidMeaning:
    """NVIDIA's description of an Xid number."""

    meaning: str
    blames: str | None = None
    keep_out: bool | None = None
    action: str | None = None
