"""Compares a compiled region with the same in eager mode, each against float64."""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, List, Tuple

import torch

from ..kernels.truth import FACTOR, FLOOR
from .regions import Arguments, map_tensors

Values = Dict[str, torch.Tensor]
_FLOOR_32 = 2.0**-15
"""Added for float32 on the CPU, whose sums a compiler may take in another order."""


def run(call: Callable[..., Any], module: torch.nn.Module, taken: Arguments) -> Values:
    """Its output, and the gradients of its floating inputs and parameters from one fixed loss."""
    leaves: List[Tuple[str, torch.Tensor]] = []

    def leaf(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        made = tensor.detach().requires_grad_(True)
        leaves.append(("gradient of input {}".format(len(leaves)), made))
        return made

    args, kwargs = map_tensors(taken[0], leaf), map_tensors(taken[1], leaf)
    module.zero_grad(set_to_none=True)
    with torch.enable_grad():
        output = _first(call(*args, **kwargs))
        weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(11)).to(output)
        (output * weights).sum().backward()
    found = {"output": output.detach()}
    found.update({name: one.grad for name, one in leaves if one.grad is not None})
    for name, one in module.named_parameters():
        if one.grad is not None:
            found["gradient of {}".format(name)] = one.grad.detach().clone()
    module.zero_grad(set_to_none=True)
    return found


def in_float64(module: torch.nn.Module, taken: Arguments) -> Values:
    """The same in float64."""

    def wide(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    other = copy.deepcopy(module).double()
    return run(other, other, (map_tensors(taken[0], wide), map_tensors(taken[1], wide)))


def compare(truth: Values, eager: Values, compiled: Values) -> Tuple[bool, Dict[str, Dict[str, float]]]:
    """Whether the compiled one stays within a small multiple of the eager one's error; and the errors, relative to the
    largest true value, of gradients to the largest of all gradients times a thousandth at least."""
    parts: Dict[str, Dict[str, float]] = {}
    good = True
    gradients = [one for name, one in truth.items() if name != "output" and one.numel()]
    largest = max((float(one.abs().max()) for one in gradients), default=0.0)
    for name, true in truth.items():
        if name not in eager or name not in compiled or not true.numel():
            continue
        kind = "out" if name == "output" else "gradient"
        scale = max(float(true.abs().max()), 1e-3 * largest if kind == "gradient" else 0.0, 1e-30)
        one, two = _error(eager[name], true, scale), _error(compiled[name], true, scale)
        floor = FLOOR.get(str(eager[name].dtype).replace("torch.", ""), _FLOOR_32)
        floor = min(floor, _FLOOR_32) if eager[name].dtype == torch.float32 and not true.is_cuda else floor
        limit = FACTOR[kind] * one + floor
        if not two <= limit:
            good = False
            parts[name] = {"eager": one, "compiled": two, "limit": limit}
    return good, parts


def _error(found: torch.Tensor, true: torch.Tensor, scale: float) -> float:
    apart = (found.double() - true.double()).abs()
    return float(apart.max()) / scale if bool(apart.isfinite().all()) else float("inf")


def _first(output: Any) -> torch.Tensor:
    while isinstance(output, (list, tuple)):
        output = output[0]
    if not isinstance(output, torch.Tensor):
        output = next(one for one in vars(output).values() if isinstance(one, torch.Tensor))
    return output
