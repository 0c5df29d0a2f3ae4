"""The expected results of a trial, and the tolerance. docs/kernels.md derives the numbers.

The reference is plain attention in float64 on the same GPU: matrix products, softmax, nothing fused. The yardstick is
the same computation in the kernel's own dtype: its error is the cost of that precision. A kernel may exceed it by a
small factor, as in flash-attention's own tests
(https://github.com/Dao-AILab/flash-attention/blob/main/tests/test_flash_attn.py). In float8 the operands are rounded
before the kernel receives them, and the kernel itself must round the weights of the softmax: FlashAttention-3's paper
(https://arxiv.org/abs/2407.08608) computes both products in e4m3, and keeps sums in float32.
"""

from __future__ import annotations

import math
from typing import Callable, Dict, List, Optional, Tuple

import torch

from ..dtypes import EIGHT_BITS
from .problems import Problem

FACTOR = {"out": 2.0, "gradient": 3.0}
"""Largest error of a kernel, as a multiple of the yardstick's error."""
FLOOR = {"bfloat16": 2.0**-9, "float16": 2.0**-12, "float32": 2.0**-10, EIGHT_BITS: 2.0**-9}
"""Added to it: half of the largest error from rounding one result (for float8 the result is bfloat16). float32: tensor
cores compute it in TF32, and no kernel promises more."""
MOST = {"bfloat16": 2.0**-6, "float16": 2.0**-8, "float32": 2.0**-9, EIGHT_BITS: 2.0**-4}
"""Upper bound of the tolerance for an output; twice as much for a gradient."""

NAN, INFINITY, UNWRITTEN, ERROR, FLICKERS = "NaN", "infinity", "unwritten", "error", "not deterministic"

Results = Dict[str, torch.Tensor]
Recipe = Callable[[Problem, Dict[str, torch.Tensor]], torch.Tensor]

LINEAR = {"bfloat16": 2.0**-6, "float16": 2.0**-9}
"""For linear attention, whose chunks contain products of decays that no plain computation in half precision can
represent: eight times (float16: four times) the largest error from rounding one result; a gradient twice as much."""


def plain(problem: Problem, dtype: torch.dtype, recipe: Recipe) -> Results:
    """Output and gradients of the plain computation in `dtype`; the problem's tensors stay unchanged."""
    leaves = {
        name: problem.meant(name, dtype).requires_grad_(leaf.requires_grad) for name, leaf in problem.leaves().items()
    }
    with torch.set_grad_enabled(problem.cell.direction == "train"):
        out = recipe(problem, leaves)
    return with_gradients(out, leaves, problem)


def softmax_attention(problem: Problem, leaves: Dict[str, torch.Tensor]) -> torch.Tensor:
    """softmax(q kᵀ · scale) v with the form's mask or bias, nothing fused. A query that sees no key gets 0, as torch
    defines it since 2.5 (https://github.com/pytorch/pytorch/pull/131863)."""
    scores, v = _scores(problem, leaves)
    return _weights(problem, scores) @ v


def _weights(problem: Problem, scores: torch.Tensor) -> torch.Tensor:
    allowed = problem.allowed()
    if allowed is None:
        return torch.softmax(scores, dim=-1)
    blind = ~allowed.any(dim=-1, keepdim=True)
    return torch.softmax(scores.masked_fill(blind, 0.0), dim=-1).masked_fill(blind, 0.0)


def made_of(problem: Problem) -> Results:
    """What each gradient sums up, without signs, in float64. A gradient that cancels to nothing, as for a query with
    one key, is held against this."""
    if problem.cell.direction != "train":
        return {}
    with torch.no_grad():
        leaves = {name: problem.meant(name, torch.float64) for name in problem.leaves()}
        scores, v = _scores(problem, leaves)
        weights = _weights(problem, scores)
        g = problem.judged(problem.out_gradient).to(torch.float64).abs()
        flowing = g @ v.abs().transpose(-2, -1)
        flowing = weights * (flowing + (weights * flowing).sum(dim=-1, keepdim=True)) * problem.scale
        q, k = problem.judged(leaves["q"]).abs(), leaves["k"].abs()
        share = q.shape[1] // k.shape[1]
        return {
            "dq": flowing @ k.repeat_interleave(share, dim=1),
            "dk": (flowing.transpose(-2, -1) @ q).unflatten(1, (-1, share)).sum(dim=2),
            "dv": (weights.transpose(-2, -1) @ g).unflatten(1, (-1, share)).sum(dim=2),
        }


def eight_bit_attention(problem: Problem, leaves: Dict[str, torch.Tensor]) -> torch.Tensor:
    """The same with the weights of the softmax rounded to float8 before they are multiplied by v; their sum is not
    rounded.

    The largest weight of a query is 1 and becomes 256, a large power of two that float8_e4m3fn can represent.
    """
    scores, v = _scores(problem, leaves)
    weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    rounded = (weights * 256.0).to(getattr(torch, EIGHT_BITS)).to(v.dtype) / 256.0
    return (rounded @ v / weights.sum(dim=-1, keepdim=True)).to(torch.bfloat16)


def yardstick(problem: Problem, reference: Results, sizes: Optional[Results] = None) -> Dict[str, float]:
    """The relative error of plain attention in the problem's own dtype, as `judge` computes it."""
    if problem.cell.dtype == EIGHT_BITS:
        found = plain(problem, torch.float32, eight_bit_attention)
    else:
        found = plain(problem, problem.q.dtype, softmax_attention)
    return {
        name: distance(found[name], wanted, (sizes or {}).get(name))["relative"] for name, wanted in reference.items()
    }


def _scores(problem: Problem, leaves: Dict[str, torch.Tensor]) -> Tuple[torch.Tensor, torch.Tensor]:
    """The input of the softmax, -inf where a query does not see a key; and v expanded to one head per query head."""
    q, k, v = leaves["q"], leaves["k"], leaves["v"]
    if problem.gqa:
        share = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
    scores = (problem.judged(q) * problem.scale) @ k.transpose(-2, -1)
    if problem.softcap is not None:
        scores = torch.tanh(scores / problem.softcap) * problem.softcap
    bias, allowed = problem.bias(), problem.allowed()
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, float("-inf"))
    return scores, v


def with_gradients(out: torch.Tensor, leaves: Dict[str, torch.Tensor], problem: Problem) -> Results:
    """The judged rows of `out`, of which a kernel computes all; and, when the problem trains, the gradient of every
    leaf."""
    if out.shape[-2] == problem.q.shape[-2]:
        out = problem.judged(out)
    results = {"out": out.detach()}
    if problem.cell.direction == "train":
        trained = {name: leaf for name, leaf in leaves.items() if leaf.requires_grad}
        gradients = torch.autograd.grad(out, list(trained.values()), problem.judged(problem.out_gradient).to(out.dtype))
        results.update(("d" + name, gradient) for name, gradient in zip(trained, gradients))
    return results


def distance(found: torch.Tensor, wanted: torch.Tensor, sizes: Optional[torch.Tensor] = None) -> Dict[str, float]:
    """‖found − wanted‖ / ‖wanted‖, or / ‖sizes‖ if given, and the largest difference. NaN and infinity are returned as
    they are."""
    difference = found.to(torch.float64) - wanted
    size = float((wanted if sizes is None else sizes).norm())
    return {"relative": float(difference.norm()) / (size or 1.0), "max": float(difference.abs().max())}


def limits(yardstick: Dict[str, float], dtype: str) -> Dict[str, float]:
    """The largest relative error allowed for each result, from that of the yardstick."""
    found = {}
    for name, error in yardstick.items():
        kind = "out" if name == "out" else "gradient"
        most = MOST[dtype] * (1.0 if kind == "out" else 2.0)
        found[name] = min(FACTOR[kind] * error + FLOOR[dtype], most)
    return found


def linear_limits(reference: Results, dtype: str) -> Dict[str, float]:
    """The same for linear attention."""
    return {name: LINEAR[dtype] * (1.0 if name == "out" else 2.0) for name in reference}


def judge(
    first: Results,
    second: Results,
    poison: float,
    reference: Results,
    limit: Dict[str, float],
    promised: bool,
    sizes: Optional[Results] = None,
) -> Dict[str, object]:
    """The verdict on two runs; free memory was filled with NaN before the first, with `poison` before the second.

    `sizes`: what the results are made of, where errors are held against that and not against the results' own size."""
    errors: Dict[str, Dict[str, float]] = {}
    troubles: List[str] = []
    unwritten = 0
    for name, wanted in reference.items():
        found, again = first[name], second[name]
        if found.shape != wanted.shape:
            raise ValueError(
                "{} has the shape {}, where {} is asked for".format(name, tuple(found.shape), tuple(wanted.shape))
            )
        # An element that is NaN in one run and the poison in the other was not written.
        left = ~torch.isfinite(found) & (again == poison)
        unwritten += int(left.sum())
        size = (sizes or {}).get(name)
        error = distance(found, wanted, size)
        if not bool(left.any()):
            # Some instructions ignore NaN: memory that is read but not written may show only in the second run.
            error = max(error, distance(again, wanted, size), key=_how_bad)
        error["limit"] = limit[name]
        errors[name] = error
        if bool(((torch.isnan(found) | torch.isnan(again)) & ~left).any()):
            troubles.append(NAN)
        if bool((torch.isinf(found) | torch.isinf(again)).any()):
            troubles.append(INFINITY)
        if not error["relative"] <= limit[name] and math.isfinite(error["relative"]):
            troubles.append(ERROR)
    if unwritten:
        troubles.insert(0, UNWRITTEN)
    same = all(torch.equal(first[name], second[name]) for name in reference)
    if promised and not same and not unwritten and NAN not in troubles:
        troubles.append(FLICKERS)
    return {
        "outcome": "wrong" if troubles else "right",
        "troubles": list(dict.fromkeys(troubles)),
        # JSON has neither NaN nor infinity.
        "errors": {n: {k: v if math.isfinite(v) else None for k, v in e.items()} for n, e in errors.items()},
        "unwritten": unwritten,
        "same_twice": same,
    }


def _how_bad(error: Dict[str, float]) -> float:
    return error["relative"] if math.isfinite(error["relative"]) else math.inf


def run_poisoned(compute: Callable[[], torch.Tensor], problem: Problem, value: float) -> Results:
    """The results of `compute` on memory that was just filled with `value`, so that unwritten elements are visible."""
    _poison(problem, value)
    problem.without_gradients()
    with torch.set_grad_enabled(problem.cell.direction == "train"):
        out = compute()
    _poison(problem, value)
    results = with_gradients(out, problem.leaves(), problem)
    if problem.device.type == "cuda":
        torch.cuda.synchronize(problem.device)  # an error in the kernel is raised here at the latest
    return results


def _poison(problem: Problem, value: float) -> None:
    """Allocates, fills and frees blocks of the sizes that the kernel will allocate: the allocator reuses them."""
    blocks = []
    for tensor in (*problem.leaves().values(), problem.q, problem.out_gradient):
        for dtype in {tensor.dtype, torch.float32} - {getattr(torch, EIGHT_BITS, None)}:  # no kernel writes float8
            blocks.append(torch.full(tensor.shape, value, dtype=dtype, device=problem.device))
    del blocks
