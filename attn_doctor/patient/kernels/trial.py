"""Runs one trial: calls the kernel twice on poisoned memory and judges the results; times right ones."""

from __future__ import annotations

import importlib
import time
import warnings
from typing import Any, Dict, Optional

import torch

from ..torch_facts import last_line, telling_line
from . import matrix, offers, problems, recorded, shares, situations, speed, truth, ways
from .cells import Cell
from .registry import OWN, Backend
from .shapes import shapes_of

_POISON = 12288.0  # exact in every dtype, and far larger than any output or gradient
_LONGEST = 400


def attempt(cell: Cell, backend: Backend, device: str, seed: int) -> Dict[str, Any]:
    """The result of the trial. outcome: right, wrong, refused or not offered (it raised), crashed (it broke the GPU's
    context), no memory."""
    started = time.monotonic()
    result: Dict[str, Any] = {}
    try:
        result = _tried(cell, backend, device, seed)
    except torch.OutOfMemoryError if hasattr(torch, "OutOfMemoryError") else torch.cuda.OutOfMemoryError as error:
        # A GPU that is too small for it cannot meet that fault either.
        large = situations.named(cell.situation).judged_rows
        result = {"outcome": "not offered" if large else "no memory", "reason": last_line(error)[:_LONGEST]}
        torch.cuda.empty_cache()
    except Exception as error:  # noqa: BLE001
        lost = _lost(device)
        own = offers.own_words(str(error))
        outcome = "crashed" if lost else "not offered" if own else "refused"
        result = {"outcome": outcome, "reason": (own or telling_line(error))[:_LONGEST], "context_lost": lost}
    result["seconds"] = round(time.monotonic() - started, 4)
    return result


def calls_of(backend: Backend) -> Any:
    """The module with its function `prepare`."""
    where = "..own_function" if backend.calls == OWN else "...libraries." + str(backend.calls)
    return importlib.import_module(where, __name__)


def _tried(cell: Cell, backend: Backend, device: str, seed: int) -> Dict[str, Any]:
    calls = calls_of(backend)
    situation = situations.named(cell.situation)
    problem = _problem(cell, backend, device, seed, problems.SMALL if device != "cpu" else problems.TINY)
    recipe: truth.Recipe = calls.reference if backend.linear else truth.softmax_attention
    with warnings.catch_warnings(record=True) as caught, ways.of_calling(situation):
        warnings.simplefilter("always")
        try:
            compute = ways.compute(problem, lambda asked: calls.prepare(asked, backend), situation, seed)
            first = truth.run_poisoned(compute, problem, float("nan"))
            second = truth.run_poisoned(compute, problem, _POISON)
        except RuntimeError as error:
            said = refusals([str(one.message) for one in caught])
            if not said or "No available kernel" not in str(error):
                raise
            return {"outcome": "refused", "reason": said[0][:_LONGEST], "context_lost": False}
    reference = truth.plain(problem, torch.float64, recipe)
    sizes = truth.made_of(problem) if situation.degenerate else None
    if backend.linear:
        limit = truth.linear_limits(reference, cell.dtype)
    else:
        limit = truth.limits(truth.yardstick(problem, reference, sizes), cell.dtype)
    promised = cell.direction in backend.promises or situation.calls == "deterministic"
    result = truth.judge(first, second, _POISON, reference, limit, promised, sizes)
    chosen = calls.chosen(problem) if backend.chooses else None
    if backend.chooses:
        result["chosen"] = chosen
    if result["outcome"] == "wrong" and not backend.linear:
        sizes_of = problems.SMALL if device != "cpu" else problems.TINY
        result["call"] = recorded.form_of(cell, shapes_of(cell, sizes_of), chosen)
    return result


def _problem(cell: Cell, backend: Backend, device: str, seed: int, sizes: problems.Sizes) -> problems.Problem:
    if backend.linear:
        made: problems.Problem = calls_of(backend).make_problem(cell, device, seed)
        return made
    return problems.make_problem(cell, device, seed, sizes)


def timed(cell: Cell, backend: Backend, device: str, seed: int, ceiling: Dict[str, float]) -> Dict[str, Any]:
    """Its speed, after it was found right; `share` where that is compared with the same kernel elsewhere."""
    calls, result = calls_of(backend), {}
    try:
        result["speed"] = _timed(cell, backend, calls, device, seed, ceiling)
        if cell in matrix.for_share(backend):
            result["share"] = _share(cell, backend, calls, device, seed)
    except Exception as error:  # noqa: BLE001
        lost = _lost(device)
        return {
            "outcome": "crashed" if lost else "refused",
            "reason": telling_line(error)[:_LONGEST],
            "context_lost": lost,
        }
    return result


def _timed(
    cell: Cell, backend: Backend, calls: Any, device: str, seed: int, ceiling: Dict[str, float]
) -> Optional[Dict[str, Any]]:
    problem = problems.make_problem(cell, device, seed, problems.LARGE)
    try:
        compute = calls.prepare(problem, backend)
        if not cell.situation:
            return speed.measure(compute, problem, ceiling)
        # A model's own call can be small: in batches, so that the processor runs ahead of the GPU.
        found = speed.measure(compute, problem, ceiling, shares.milliseconds)
        return {**found, "memory_bytes": speed.memory(compute, problem)}
    except torch.cuda.OutOfMemoryError:
        return None  # the result is right all the same


def _share(cell: Cell, backend: Backend, calls: Any, device: str, seed: int) -> Optional[Dict[str, Any]]:
    problem = problems.make_problem(cell, device, seed, shares.SIZES)
    try:
        return shares.measure(calls.prepare(problem, backend), problem)
    except torch.cuda.OutOfMemoryError:
        return None


def refusals(words: Any) -> Any:
    """torch's own reasons in its warnings, without the headings "kernel not used because:" and the source lines."""
    found = []
    for text in words:
        text = text.partition(" (Triggered internally at")[0].strip()
        if text and not text.endswith("not used because:"):
            found.append(text)
    return found


def _lost(device: str) -> bool:
    """True when the GPU's context is lost. Checked after every error: libraries use different messages (cuDNN:
    CUDNN_STATUS_INTERNAL_ERROR), and the next trial would be blamed for it."""
    if device == "cpu":
        return False
    try:
        torch.cuda.synchronize(device)
        torch.ones(1, device=device).sum().item()
    except Exception:  # noqa: BLE001
        return True
    return False
