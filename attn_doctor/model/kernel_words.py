"""Wording of kernel-trial results, shared by facts and all report formats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from attn_doctor.model.compiled_kernels import CompiledKernel
from attn_doctor.model.dtypes import SHORT
from attn_doctor.model.gpu_state import GpuState, RemappedRows
from attn_doctor.model.kernels import KernelTrials, ResultError, TestedGpu, Trial

FORMS = {
    "dense": "without a mask",
    "causal": "causal",
    "gqa": "causal with fewer key-value heads",
    "varlen": "packed sequences",
    "bool-mask": "a boolean mask",
    "half-mask": "a mask in the query's half precision",
    "fp32-mask": "a float32 mask",
    "window": "a sliding window",
    "softcap": "soft-capped scores",
}
_DIRECTIONS: Mapping[tuple[str, ...], str] = {("train",): "in training", ("forward",): "without gradients"}
#: Lines of a compiler's message that name the error.
_TELLING = re.compile(r"error|assert|not supported|unsupported|out of resource", re.IGNORECASE)


def condition(group: Sequence[Trial]) -> str:
    """The conditions under which these trials failed. All forms listed were tried with the same dtypes, head dims and
    directions.
    """
    named = {trial.dtype for trial in group}
    dtypes = " or ".join(word for name, word in SHORT.items() if name in named)
    sizes = sorted({trial.head_dim for trial in group})
    dims = ", ".join(map(str, sizes))
    directions = tuple(sorted({trial.direction for trial in group}))
    way = _DIRECTIONS.get(directions, "with and without gradients")
    many = "s" if len(sizes) > 1 else ""
    variants = dict.fromkeys(trial.variant for trial in group if trial.variant)
    held = f", when its tuning chooses {' or '.join(variants)}" if variants else ""
    forms = " or ".join(dict.fromkeys(FORMS[trial.form] for trial in group))
    situations = " or ".join(dict.fromkeys(trial.situation_words for trial in group if trial.situation_words))
    in_it = f", {situations}" if situations else ""
    return f"{dtypes} q, k and v, {forms}{in_it}, head dim{many} {dims}, {way}{held}"


def worst(group: Iterable[Trial]) -> str:
    """The largest error, or the last message of the kernel."""
    group = list(group)
    reasons = [trial.reason for trial in group if trial.reason]
    if reasons:
        return reasons[0]
    found: list[tuple[float, str, ResultError]] = []
    words: list[str] = []
    for trial in group:
        words += [word for word in trial.troubles or () if word != "error"]
        for name, error in (trial.errors or {}).items():
            if error.relative is not None and error.limit and error.relative > error.limit:
                found.append((error.relative / error.limit, name, error))
    if found:
        _, name, error = max(found, key=lambda one: one[0])
        words.append(
            f"{name} is off by {_size(error.relative or 0.0)}, where {error.limit:.2g} is allowed; "
            f"largest difference {_digits(error.max or 0.0)}"
        )
    return "; ".join(dict.fromkeys(words)) or "wrong"


def _size(relative: float) -> str:
    return f"{relative:.2g} of its size" if relative < 10 else f"{_digits(relative)} times its size"


def _digits(number: float) -> str:
    """Three significant digits, without an exponent where people expect none: 1053, not 1.05e+03."""
    return f"{number:.0f}" if 100 <= number < 1e6 else f"{number:.3g}"


def trouble(group: Sequence[Trial], trials: KernelTrials) -> str:
    """Severity of the problem in words, with the Xids that the GPU reported during these trials."""
    heard = xids_of(group, trials)
    return f"{worst(group)}; meanwhile the GPU reported {', '.join(heard)}" if heard else worst(group)


# --------------------------------------------------------------------------------------------------------------
# Xids and the state of the GPU


def xids_of(group: Iterable[Trial], trials: KernelTrials) -> tuple[str, ...]:
    """Xids that GPUs reported during these trials."""
    return xids(dict.fromkeys(number for trial in group for number in trial.xids or ()), trials)


def xids(numbers: Iterable[int], trials: KernelTrials) -> tuple[str, ...]:
    """`Xid 31 (GPU memory page fault)` for each number."""
    known = trials.xid_meanings or {}
    told = ((number, known.get(str(number))) for number in numbers)
    return tuple(f"Xid {number} ({one.meaning})" if one else f"Xid {number}" for number, one in told)


def xids_of_gpu(gpu: TestedGpu, trials: KernelTrials) -> str:
    """Xids that a GPU reported; the reason when the Xid listener did not start."""
    words = xids(gpu.heard.numbers, trials)
    if words:
        return ", ".join(words)
    return f"Xids not known ({gpu.heard.why_not})" if gpu.heard.why_not else "no Xid"


def state(gpu: TestedGpu, trials: KernelTrials) -> str:
    """The state of the GPU under load, in one line; values that NVML does not report are called unknown."""
    load = gpu.load
    if load is None:
        return f"NVML did not answer while the kernels ran; {xids_of_gpu(gpu, trials)}"
    held, errors, rows = load.throttle_reasons, load.ecc_errors, load.remapped_rows
    words = [
        f"clock {clock(load) or 'not known'}",
        f"power {power(load) or 'not known'}",
        "what holds the clock down is not known"
        if held is None
        else f"held down by {', '.join(held)}"
        if held
        else "nothing holds the clock down",
        "memory errors not known" if errors is None else f"{errors or 'no'} uncorrected memory errors",
        "remapped rows not known" if rows is None else f"remapped rows: {remapped(rows) or 'none'}",
        xids_of_gpu(gpu, trials),
    ]
    return "; ".join(words)


def clock(load: GpuState) -> str | None:
    """`1935 of 1980 MHz`."""
    return f"{load.clock_mhz} of {load.max_clock_mhz} MHz" if load.clock_mhz else None


def power(load: GpuState) -> str | None:
    """`145 W of 700 W`, with the default limit when another was set."""
    if load.power_watts is None or not load.power_limit_watts:
        return None
    words = f"{load.power_watts} W of {load.power_limit_watts} W"
    if load.power_default_watts not in (None, load.power_limit_watts):
        words += f", where {load.power_default_watts} W is the default"
    return words


def remapped(rows: RemappedRows) -> str | None:
    """Number of remapped memory rows, and whether a reset is pending; None when there are none."""
    words = [f"{number} after {of} errors" for of, number in _remapped(rows).items() if number]
    words += ["a reset is pending"] * rows.pending + ["remapping failed"] * rows.failed
    return ", ".join(words) or None


def _remapped(rows: RemappedRows) -> dict[str, int]:
    return {"corrected": rows.corrected, "uncorrected": rows.uncorrected}


# --------------------------------------------------------------------------------------------------------------
# Kernels that were compiled but not run


def compiler(one: CompiledKernel) -> str:
    """One line of the compiler's message; the whole message is in `message`."""
    if one.outcome == "exceeds shared memory" and one.required_bytes:
        return f"{one.required_bytes} bytes needed, {one.limit_bytes} there"
    lines = [line.strip() for line in f"{one.cause}\n{one.message}".splitlines() if line.strip()]
    return next((line for line in lines if _TELLING.search(line)), lines[-1] if lines else "")[:300]
