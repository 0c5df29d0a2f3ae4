"""Asks NVML about every GPU: what it is, what lasts of it (bus, modes, memory rows, links), and how it is doing.

Runs in a process of its own (node_child.py), because a stuck driver call cannot be interrupted otherwise.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing is too slow here: most queried nodes have no GPU
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: As nvidia-ml-py puts it.
_NO_LIBRARY = '{"outcome": "no library", "message": "NVML Shared Library Not Found"}'


def answer(*, with_state: bool) -> str:
    """JSON: {"outcome": "ok" | "no library" | "error", ...}."""
    if not _library_is_there():
        return _NO_LIBRARY
    import json

    return json.dumps(_ask(with_state=with_state))


def _library_is_there() -> bool:
    """True when the library that nvidia-ml-py needs can be loaded: otherwise its 330 KB need not be imported."""
    import ctypes

    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def _ask(*, with_state: bool) -> dict[str, Any]:
    try:
        import pynvml
    except ImportError as error:
        return {"outcome": "error", "message": f"nvidia-ml-py cannot be imported: {error}"}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound as error:
        return {"outcome": "no library", "message": str(error)}
    except pynvml.NVMLError as error:
        return {"outcome": "error", "message": str(error)}
    try:
        return {
            "outcome": "ok",
            "driver": _text(pynvml.nvmlSystemGetDriverVersion()),
            "cuda": _or_none(pynvml, lambda: pynvml.nvmlSystemGetCudaDriverVersion_v2()),
            "gpus": [_gpu(pynvml, index, with_state) for index in range(pynvml.nvmlDeviceGetCount())],
        }
    except pynvml.NVMLError as error:
        return {"outcome": "error", "message": str(error)}


def _gpu(pynvml: Any, index: int, with_state: bool) -> dict[str, Any]:
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        return {"index": index, "error": str(error)}  # a GPU that fell off the bus: the others still count

    def ask(call: Callable[[], Any]) -> Any:
        return _or_none(pynvml, call)

    capability = ask(lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle))
    memory = ask(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    mig = ask(lambda: pynvml.nvmlDeviceGetMigMode(handle)[0])
    return {
        "index": index,
        "name": _text(ask(lambda: pynvml.nvmlDeviceGetName(handle))),
        "uuid": _text(ask(lambda: pynvml.nvmlDeviceGetUUID(handle))),
        "compute_capability": f"{capability[0]}.{capability[1]}" if capability else None,
        "memory_mib": memory // 2**20 if memory else None,
        "mig": None if mig is None else "on" if mig else "off",
        **(_state(pynvml, handle, ask) if with_state else {"lasting": _lasting(pynvml, handle)}),
    }


def _lasting(pynvml: Any, handle: Any) -> dict[str, Any]:
    """What stays as it is from one look to the next: bus, modes, rows of memory, links. None where the GPU has no such
    thing, {"unknown": reason} where the driver did not tell."""

    def ask(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except AttributeError:
            return {"unknown": "nvidia-ml-py is too old to ask"}
        except pynvml.NVMLError as error:
            return None if getattr(error, "value", 0) == _NOT_SUPPORTED else {"unknown": f"NVML: {error}"}

    rows = ask(lambda: pynvml.nvmlDeviceGetRemappedRows(handle))
    told = isinstance(rows, (list, tuple))
    return {
        # Idle GPUs lower the generation of their link and keep its width.
        "pcie_width": ask(lambda: pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        "pcie_max_width": ask(lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
        "pcie_generation": ask(lambda: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
        "persistence": ask(lambda: bool(pynvml.nvmlDeviceGetPersistenceMode(handle))),
        "ecc": ask(lambda: bool(pynvml.nvmlDeviceGetEccMode(handle)[0])),
        "ecc_errors": ask(lambda: _ecc_errors(pynvml, handle)),
        "remapped_rows": rows[0] + rows[1] if told else rows,
        "row_remapping": ("failed" if rows[3] else "pending" if rows[2] else "good") if told else rows,
        **_links(pynvml, handle),
    }


#: NVML_ERROR_INVALID_ARGUMENT, NVML_ERROR_NOT_SUPPORTED: no such link, no NVLink at all.
_INVALID, _NOT_SUPPORTED = 2, 3


def _links(pynvml: Any, handle: Any) -> dict[str, Any]:
    """How many NVLinks there are, and how many of them are up."""
    states: list[bool] = []
    lost = None
    try:
        for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
            states.append(bool(pynvml.nvmlDeviceGetNvLinkState(handle, link)))
    except AttributeError:
        lost = {"unknown": "nvidia-ml-py is too old to ask"}
    except pynvml.NVMLError as error:
        if getattr(error, "value", 0) not in (_INVALID, _NOT_SUPPORTED):
            lost = {"unknown": f"NVML: {error}"}
    return {"nvlinks": lost or len(states), "nvlinks_up": lost or sum(states)}


#: https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html
_THROTTLING = {
    0x2: "application clocks are set",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks are set",
}


def _state(pynvml: Any, handle: Any, ask: Callable[[Callable[[], Any]], Any]) -> dict[str, Any]:
    reasons = ask(lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    if reasons is None:
        reasons = ask(lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    used = ask(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    processes = ask(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    power = ask(lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
    limit = ask(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    usual = ask(lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle))
    rows = ask(lambda: pynvml.nvmlDeviceGetRemappedRows(handle))
    return {
        "clock_mhz": ask(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        "max_clock_mhz": ask(lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        "memory_clock_mhz": ask(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
        "throttle_reasons": None if reasons is None else [w for bit, w in _THROTTLING.items() if reasons & bit],
        "power_watts": None if power is None else power // 1000,
        "power_limit_watts": None if limit is None else limit // 1000,
        "power_default_watts": None if usual is None else usual // 1000,
        "temperature": ask(lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
        "ecc_errors": ask(lambda: _ecc_errors(pynvml, handle)),
        "remapped_rows": None
        if rows is None
        else {"corrected": rows[0], "uncorrected": rows[1], "pending": bool(rows[2]), "failed": bool(rows[3])},
        "utilization": ask(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        "memory_used_mib": None if used is None else used // 2**20,
        "processes": None if processes is None else len(processes),
    }


def _ecc_errors(pynvml: Any, handle: Any) -> Any:
    kinds = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    return pynvml.nvmlDeviceGetTotalEccErrors(handle, *kinds)


def _or_none(pynvml: Any, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (pynvml.NVMLError, AttributeError):
        return None


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
