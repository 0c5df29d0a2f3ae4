"""What NVML told of a GPU around the trials, in words and as facts: what else used it, what holds it down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attn_doctor.probe.noting import Notes

_BUSY_MEMORY_MIB = 1024
_BUSY_PER_CENT = 10


def note_state(notes: Notes, own: str, gpu: Mapping[str, Any]) -> None:
    """Clock, throttle reasons, power and memory errors under load, of the subject `own`."""
    how = "NVML, while the kernels ran"
    load = gpu["load"] or {}
    if not gpu["load"]:
        for name in ("clock", "throttle_reasons", "power", "ecc_errors", "remapped_rows"):
            notes.unknown(own + name, how, "NVML did not answer", asked=False)
    else:
        clock = f"{load['clock_mhz']} of {load['max_clock_mhz']} MHz" if load.get("clock_mhz") else None
        power = None
        if load.get("power_watts") is not None and load.get("power_limit_watts"):
            power = f"{load['power_watts']} W of {load['power_limit_watts']} W"
            if load.get("power_default_watts") not in (None, load["power_limit_watts"]):
                power += f", where {load['power_default_watts']} W is the default"
        rows = load.get("remapped_rows")
        notes.known_or_absent(own + "clock", clock, how)
        notes.known_or_absent(own + "throttle_reasons", tuple(load.get("throttle_reasons") or ()), how)
        notes.known_or_absent(own + "power", power, how)
        notes.known_or_absent(own + "ecc_errors", load.get("ecc_errors"), how)
        notes.known_or_absent(own + "remapped_rows", _rows(rows) if rows else None, how)


def note_busy(notes: Notes, own: str, gpu: Mapping[str, Any]) -> None:
    """What else used it, of the subject `own`: a GPU that was busy proves nothing by being slow."""
    before = "NVML, before the kernels ran"
    if gpu["before"]:
        notes.known_or_absent(own + "busy", busy(gpu), before)
    else:
        notes.unknown(own + "busy", before, "NVML did not answer")


def _rows(rows: Mapping[str, Any]) -> str | None:
    words = [f"{rows[key]} after {key} errors" for key in ("corrected", "uncorrected") if rows[key]]
    words += [word for key, word in (("pending", "a reset is pending"), ("failed", "remapping failed")) if rows[key]]
    return ", ".join(words) or None


def busy(gpu: Mapping[str, Any]) -> str | None:
    """What else used the GPU before it was measured."""
    before = gpu["before"]
    if not before:
        return None
    words = []
    if (before.get("utilization") or 0) > _BUSY_PER_CENT:
        words.append(f"{before['utilization']} % utilised")
    if before.get("processes") and (before.get("memory_used_mib") or 0) > _BUSY_MEMORY_MIB:
        words.append(f"{before['memory_used_mib'] / 1024:.1f} GiB taken by {before['processes']} other processes")
    return ", ".join(words) or None
