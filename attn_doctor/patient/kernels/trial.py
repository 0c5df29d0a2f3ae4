"""Runs one trial: calls the kernel twice on poisoned memory, judges the results, and times it when they are right."""

from __future__ import annotations

import importlib
import time
import warnings
from typing import Any, Dict, Optional

import torch

from ..torch_facts import last_line, telling_line
from . import matrix, offers, problems, shares, speed, truth
from .cells import Cell
from .registry import OWN, Backend

_POISON = 12288.0  # exact in every dtype, and far larger than any output or gradient
_LONGEST = 400


def attempt(
    cell: Cell, backend: Backend, device: str, seed: int, ceiling: Optional[Dict[str, float]]
) -> Dict[str, Any]:
    """The result of the trial. outcome: right, wrong, refused or not offered (it raised), crashed (it broke the GPU's
    context), no memory."""
    started = time.monotonic()
    result: Dict[str, Any] = {}
    try:
        result = _tried(cell, backend, device, seed, ceiling)
    except torch.OutOfMemoryError if hasattr(torch, "OutOfMemoryError") else torch.cuda.OutOfMemoryError as error:
        result = {"outcome": "no memory", "reason": last_line(error)[:_LONGEST]}
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


def _tried(cell: Cell, backend: Backend, device: str, seed: int, ceiling: Optional[Dict[str, float]]) -> Dict[str, Any]:
    calls = calls_of(backend)
    on_gpu = device != "cpu"
    if backend.linear:
        problem = calls.make_problem(cell, device, seed)
        recipe: truth.Recipe = calls.reference
    else:
        problem = problems.make_problem(cell, device, seed, problems.SMALL if on_gpu else problems.TINY)
        recipe = truth.softmax_attention
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            compute = calls.prepare(problem, backend)
            first = truth.run_poisoned(compute, problem, float("nan"))
            second = truth.run_poisoned(compute, problem, _POISON)
        except RuntimeError as error:
            said = refusals([str(one.message) for one in caught])
            if not said or "No available kernel" not in str(error):
                raise
            return {"outcome": "refused", "reason": said[0][:_LONGEST], "context_lost": False}
    reference = truth.plain(problem, torch.float64, recipe)
    if backend.linear:
        limit = truth.linear_limits(reference, cell.dtype)
    else:
        limit = truth.limits(truth.yardstick(problem, reference), cell.dtype)
    result = truth.judge(first, second, _POISON, reference, limit, cell.direction in backend.promises)
    del first, second, reference
    if backend.chooses:
        result["chosen"] = calls.chosen(problem)
    if ceiling is not None and result["outcome"] == "right" and _worth_timing(cell):
        del problem
        result["speed"] = _timed(cell, backend, calls, device, seed, ceiling)
        if cell in matrix.for_share(backend):
            result["share"] = _share(cell, backend, calls, device, seed)
    return result


def _worth_timing(cell: Cell) -> bool:
    """True for common sizes and forms: cuDNN makes a new plan for each size, which takes half a second."""
    return cell.head_dim in (64, 128) and cell.form in ("dense", "causal", "gqa", "varlen")


def _timed(
    cell: Cell, backend: Backend, calls: Any, device: str, seed: int, ceiling: Dict[str, float]
) -> Optional[Dict[str, Any]]:
    problem = problems.make_problem(cell, device, seed, problems.LARGE)
    try:
        return speed.measure(calls.prepare(problem, backend), problem, ceiling)
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
