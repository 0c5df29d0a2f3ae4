"""What NVML told of a GPU around the trials, in words and as facts: what else used it, what holds it down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attn_doctor.probe import xids
from attn_doctor.probe.noting import Notes

_BUSY_MEMORY_MIB = 1024
_BUSY_PER_CENT = 10


def in_words(gpu: Mapping[str, Any], answer: Mapping[str, Any]) -> str:
    """How the GPU was under load, in one line; what NVML does not tell is not known, and said so."""
    load = gpu["load"]
    if not load:
        return f"NVML did not answer while the kernels ran; {xids.of_state(gpu, answer)}"
    held, errors, rows = load.get("throttle_reasons"), load.get("ecc_errors"), load.get("remapped_rows")
    words = [
        f"clock {_clock(load) or 'not known'}",
        f"power {_power(load) or 'not known'}",
        "what holds the clock down is not known"
        if held is None
        else f"held down by {', '.join(held)}"
        if held
        else "nothing holds the clock down",
        "memory errors not known" if errors is None else f"{errors or 'no'} uncorrected memory errors",
        "remapped rows not known" if rows is None else f"remapped rows: {_rows(rows) or 'none'}",
        xids.of_state(gpu, answer),
    ]
    return "; ".join(words)


def note_state(notes: Notes, own: str, gpu: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """Clock, throttle reasons, power, memory errors and Xids, of the subject `own`."""
    how = "NVML, while the kernels ran"
    load = gpu["load"] or {}
    notes.known(own + "state", in_words(gpu, answer), how)
    if not gpu["load"]:
        for name in ("clock", "throttle_reasons", "power", "ecc_errors", "remapped_rows"):
            notes.unknown(own + name, how, "NVML did not answer", asked=False)
        return
    rows = load.get("remapped_rows")
    notes.known_or_absent(own + "clock", _clock(load), how)
    notes.known_or_absent(own + "throttle_reasons", tuple(load.get("throttle_reasons") or ()), how)
    notes.known_or_absent(own + "power", _power(load), how)
    notes.known_or_absent(own + "ecc_errors", load.get("ecc_errors"), how)
    notes.known_or_absent(own + "remapped_rows", _rows(rows) if rows else None, how)


def _clock(load: Mapping[str, Any]) -> str | None:
    return f"{load['clock_mhz']} of {load['max_clock_mhz']} MHz" if load.get("clock_mhz") else None


def _power(load: Mapping[str, Any]) -> str | None:
    if load.get("power_watts") is None or not load.get("power_limit_watts"):
        return None
    power = f"{load['power_watts']} W of {load['power_limit_watts']} W"
    if load.get("power_default_watts") not in (None, load["power_limit_watts"]):
        power += f", where {load['power_default_watts']} W is the default"
    return power


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
