"""How a GPU is doing, as NVML tells it; what a driver does not tell is None."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from attn_doctor.probe.host import nvml_reads


class NVMLError(Exception):
    pass


def nvml(**more: Any) -> Any:
    def refuses(*_: Any) -> Any:
        raise NVMLError("not supported")

    names = ("TotalEccErrors", "RemappedRows", "ComputeRunningProcesses", "UtilizationRates", "Temperature")
    known: dict[str, Any] = {f"nvmlDeviceGet{name}": refuses for name in names}
    known |= {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "NVML_TEMPERATURE_GPU": 0,
        "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1,
        "NVML_VOLATILE_ECC": 0,
        "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(used=3 * 2**30),
        "nvmlDeviceGetPowerUsage": lambda _: 345_678,
        "nvmlDeviceGetEnforcedPowerLimit": lambda _: 400_000,
        "nvmlDeviceGetPowerManagementDefaultLimit": lambda _: 700_000,
        "nvmlDeviceGetClockInfo": lambda _, which: 1200 + which,
        "nvmlDeviceGetMaxClockInfo": lambda _, which: 1980,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda _: 0x4 | 0x40 | 0x1,
    }
    return SimpleNamespace(**{**known, **more})


def state(pynvml: Any) -> dict[str, Any]:
    return nvml_reads._state(pynvml, "handle", lambda call: nvml_reads._or_none(pynvml, call))


def test_what_holds_it_down() -> None:
    """Reasons in words, idle left out; power and its limits in watts."""
    found = state(nvml())

    assert found["throttle_reasons"] == ["software power cap", "hardware thermal slowdown"]
    assert (found["power_watts"], found["power_limit_watts"], found["power_default_watts"]) == (345, 400, 700)
    assert (found["clock_mhz"], found["max_clock_mhz"]) == (1201, 1980)


def test_what_a_driver_does_not_tell() -> None:
    """A question that the driver refuses is None, and the others are answered."""
    found = state(nvml())

    assert found["ecc_errors"] is None
    assert found["remapped_rows"] is None
    assert found["memory_used_mib"] == 3072


def test_remapped_rows() -> None:
    """Rows that were remapped, and whether a reset is due."""
    found = state(nvml(nvmlDeviceGetRemappedRows=lambda _: (1, 2, 1, 0)))

    assert found["remapped_rows"] == {"corrected": 1, "uncorrected": 2, "pending": True, "failed": False}


def test_the_newer_name_of_throttling() -> None:
    """Newer bindings call it event reasons."""
    renamed = nvml(nvmlDeviceGetCurrentClocksEventReasons=lambda _: 0x80)
    del renamed.nvmlDeviceGetCurrentClocksThrottleReasons

    assert state(renamed)["throttle_reasons"] == ["power brake"]
