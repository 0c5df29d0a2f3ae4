"""The work of a child with one GPU: measure its ceilings, judge or time its cells, write a line about each.

Each cell has an alarm. Its default action ends the process even when Python cannot run.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple

from . import recorded, situations
from .cells import Cell
from .registry import backend

if TYPE_CHECKING:
    from types import ModuleType

_LONGEST_COMPILATION = 120.0
_LATE = 2.0


@dataclasses.dataclass
class Work:
    """The cells of one child on one GPU."""

    torch: ModuleType
    device: str
    """"0", "1", …: torch's index; or "cpu" with a suffix, in tests."""
    file: str
    """JSON lines, appended: each cell begun, each result."""
    deadline: float
    """time.monotonic()"""
    cell_timeout: float
    seed: int
    waits_for: Optional[str]
    """A file: until it exists, nothing may run on the GPU. None: this line of cells measures the GPU's ceilings."""
    then_open: str = ""
    """A file that is made once the ceilings are measured: others wait for it."""
    pauses: Tuple[str, str] = ("", "")
    """Two files: from when the first exists until the second does, nothing may run on the GPU: others are timed."""
    times: bool = False
    """Its cells were found right and are timed."""
    ceiling: Optional[Dict[str, float]] = None


def run(work: Work, cells: List[Cell]) -> None:
    """Runs in a forked child: returns after the last cell, at the deadline, or when a kernel broke the GPU's
    context.
    """
    os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)
    _alarm(max(work.deadline - time.monotonic(), 1.0) + 30.0)
    from . import trial  # imports parts of torch that the parent does not need

    torch, on_gpu = work.torch, not work.device.startswith("cpu")
    device = "cuda:" + work.device if on_gpu else "cpu"
    if not on_gpu:
        torch.set_num_threads(1)  # the threads of the parent do not exist in a forked child
    if on_gpu:
        torch.cuda.set_device(device)
        torch.zeros(1, device=device)
    if work.waits_for is not None:
        _import_early(cells)
        _wait(work, lambda: os.path.exists(str(work.waits_for)))
    elif on_gpu and work.ceiling is None:
        _measure(work, device)
    if work.then_open:
        with open(work.then_open, "w"):
            pass
    began, ended = work.pauses
    for cell in cells:
        _wait(work, lambda: not os.path.exists(began) or os.path.exists(ended))
        left = work.deadline - time.monotonic()
        if left <= 0:
            break
        note(work.file, {"begun": cell.as_json()})
        one, seed = backend(cell.backend), work.seed + _own_seed(cell)
        _alarm(min(_LONGEST_COMPILATION, left + _LATE) if one.compiled else work.cell_timeout)
        if work.times:
            assert work.ceiling is not None
            result = trial.timed(cell, one, device, seed, work.ceiling)
            note(work.file, {"timed": cell.as_json(), **result})
        else:
            result = trial.attempt(cell, one, device, seed)
            note(work.file, {"cell": cell.as_json(), **result, **about(cell)})
        if result.get("context_lost"):
            break
    _alarm(0)


def about(cell: Cell) -> Dict[str, object]:
    """What a result says of its situation."""
    situation = situations.named(cell.situation)
    used = {"used": recorded.used(situation.recorded, cell.backend)} if situation.recorded else {}
    return {**situation.as_json(), **used}


def _wait(work: Work, ready: Callable[[], bool]) -> None:
    while not ready() and time.monotonic() < work.deadline:
        time.sleep(0.02)


def _measure(work: Work, device: str) -> None:
    from . import speed

    torch = work.torch
    free, total = torch.cuda.mem_get_info(device)
    note(work.file, {"memory": {"free": free, "total": total}})
    work.ceiling = speed.ceilings(torch.device(device), torch.cuda.get_device_capability(device))
    note(work.file, {"ceiling": work.ceiling})


def _import_early(cells: List[Cell]) -> None:
    """Imports take seconds each, and can run while another line uses the GPU. An error occurs again in the trial and is
    reported there.
    """
    import importlib

    _held_to(cells[0].variant)
    backends = [backend(cell.backend) for cell in cells]
    for name in dict.fromkeys(
        one.module or "torch._inductor.compile_fx" for one in backends if one.module or one.compiled
    ):
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001
            pass


def _held_to(variant: str) -> None:
    """Fixes autotuners to one configuration with that many warps. Must run before the kernels are imported.

    By itself Triton compiles about a hundred configurations, which takes minutes, and uses the fastest: a different one
    for each size, GPU and moment. A kernel that is wrong in one of them would be wrong only sometimes.
    """
    warps = variant.partition(" ")[0]
    if not warps.isdigit():
        return
    try:
        import triton
        from triton.runtime import autotuner
    except Exception:  # noqa: BLE001
        return
    thorough = autotuner.autotune

    def autotune(configs: Any, *args: Any, **options: Any) -> object:
        fitting = [config for config in configs if config.num_warps == int(warps)]
        # The smallest one: the tuner would skip configurations that do not fit into shared memory as well.
        return thorough([min(fitting or list(configs), key=_size)], *args, **options)

    triton.autotune = autotuner.autotune = autotune


def _size(config: Any) -> Any:
    blocks = [value for value in config.kwargs.values() if isinstance(value, int)]
    return config.num_stages, sum(blocks)


def _own_seed(cell: Cell) -> int:
    """A seed for each cell, so that a cell that is run alone gets the same numbers."""
    return sum(ord(letter) * (number + 1) for number, letter in enumerate(cell.name)) % 100_003


def _alarm(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)


def note(file: str, line: Mapping[str, object]) -> None:
    """Appends one line with the time of day, to relate it to the driver's events."""
    with open(file, "a", encoding="ascii") as handle:
        handle.write(json.dumps({**line, "at": round(time.time(), 3)}, default=str) + "\n")


def lines(file: str) -> List[Dict[str, Any]]:
    """The lines appended so far."""
    try:
        with open(file, encoding="ascii") as handle:
            text = handle.read()
    except OSError:
        return []
    found = []
    for line in text.split("\n")[:-1]:  # the last is empty or incomplete
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
