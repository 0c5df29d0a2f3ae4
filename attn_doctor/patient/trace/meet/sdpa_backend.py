"""The backend that scaled_dot_product_attention would choose for a call on the GPU whose rules apply.

This file converts the tensors of a call to descriptions, after autocast, and applies torch's switches;
simulate/sdpa/choice.py has the rules. For an unknown GPU or torch there is no answer.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple, Union

import torch

from ...simulate.cuda import simulated_gpu
from ...simulate.sdpa import choice as sdpa_choice
from ...simulate.sdpa import fused_ways, silent
from ...simulate.triton.driver import version_of
from ..record import ops

if TYPE_CHECKING:
    from ...arguments import Given, Keywords, Positional
    from ..answer import Backend, MathCost, Taken, Way

_SWITCHES = {
    sdpa_choice.FLASH: "flash_sdp_enabled",
    sdpa_choice.EFFICIENT: "mem_efficient_sdp_enabled",
    sdpa_choice.CUDNN: "cudnn_sdp_enabled",
    sdpa_choice.MATH: "math_sdp_enabled",
}
_SWITCHED_OFF = "switched off where the call is made (torch.backends.cuda or torch.nn.attention.sdpa_kernel)"
NONE_IS_LEFT = "No available kernel. Aborting execution."
ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


class Choices:
    """Predictions for the calls of one run; equal calls are predicted once."""

    def __init__(self, gpu: Optional[simulated_gpu.Gpu]) -> None:
        self.gpu = gpu
        self._known: Dict[Tuple[sdpa_choice.Call, Tuple[str, ...]], Optional[sdpa_choice.Choice]] = {}
        self._costs: Dict[int, MathCost] = {}
        self._cudnn: Union[int, bool, None] = False
        """False: not looked up yet."""

    def of(self, args: Positional, kwargs: Keywords, autocast: Optional[torch.dtype]) -> Optional[sdpa_choice.Choice]:
        """None when there is no prediction: no GPU to judge by, or tensors without strides."""
        if self.gpu is None:
            return None
        given = dict(zip(ARGUMENTS, args))
        given.update(kwargs)
        try:
            with torch._C.DisableTorchFunction():
                call = _call(given, autocast)
        except (KeyError, AttributeError, TypeError, ValueError, RuntimeError):
            return None  # no tensors, or sparse, nested and symbolic ones; a missing operand raises by itself
        key = call, _switched_off()
        if key not in self._known:
            choice = self._known[key] = self._asked(self.gpu, *key)
            if choice is not None and choice.backend == sdpa_choice.MATH:
                self._costs[id(choice)] = self._cost(self.gpu, *key)
        return self._known[key]

    def as_json(self, choice: sdpa_choice.Choice) -> Backend:
        """`backend` in the JSON of a call (schema in ../__init__)."""
        assert self.gpu is not None  # without one nothing was chosen
        return {**as_json(choice, self.gpu), "math": self._costs.get(id(choice))}

    def _cost(self, gpu: simulated_gpu.Gpu, call: sdpa_choice.Call, off: Tuple[str, ...]) -> MathCost:
        """The cost of math for this call, and the changes that would avoid it: enabling backends first, if that is the
        reason.
        """

        def chooses(other: sdpa_choice.Call, off: Tuple[str, ...] = off) -> Optional[str]:
            choice = self._asked(gpu, other, off)
            return choice.backend if choice is not None and choice.error is None else None

        found: List[Way] = [{"backend": way.backend, "words": way.words} for way in fused_ways.ways(call, gpu, chooses)]
        if off and not found:
            switch = "switch {} on again for this call".format(", ".join(n for n in off if n != sdpa_choice.MATH))
            switched = chooses(call, ())
            if switched not in (None, sdpa_choice.MATH):
                found = [{"backend": switched, "words": switch}]
            else:
                more = fused_ways.ways(call, gpu, lambda other: chooses(other, ()))
                found = [{"backend": way.backend, "words": switch + ", and " + way.words} for way in more]
        return {
            "q_length": call.query.shape[-2],
            "k_length": call.key.shape[-2],
            "score_bytes": fused_ways.score_bytes(call, str(torch.__version__)),
            "operand_bytes": fused_ways.operand_bytes(call),
            "ways": found,
        }

    def _asked(
        self, gpu: simulated_gpu.Gpu, call: sdpa_choice.Call, off: Tuple[str, ...]
    ) -> Optional[sdpa_choice.Choice]:
        try:
            choice = sdpa_choice.choose(call, gpu, str(torch.__version__), self._cudnn_version())
        except (ValueError, IndexError):
            return None
        return _without(choice, call, off) if off else choice

    def _cudnn_version(self) -> Optional[int]:
        """Version in a CUDA build, with or without a GPU; for a CPU build, the version in the CUDA build of the same
        release.
        """
        if self._cudnn is False:
            try:
                self._cudnn = torch.backends.cudnn.version() if torch._C._has_cudnn else None
            except Exception:
                self._cudnn = None
        return self._cudnn or None


def as_json(choice: sdpa_choice.Choice, gpu: simulated_gpu.Gpu) -> Taken:
    """`backend` in the JSON of a call (schema in ../__init__)."""
    return {
        "taken": choice.backend,
        "refused": dict(choice.refused),
        "certain": choice.certain,
        "doubts": list(choice.doubts),
        "warnings": list(choice.warnings),
        "error": choice.error,
        "gpu": gpu.name,
        "torch": str(torch.__version__),
    }


def form_of(given: Given, autocast: Optional[torch.dtype]) -> Tuple[object, ...]:
    """What torch's choice for a call depends on; equal for calls alike."""
    return _call(given, autocast), _switched_off()


def _call(given: Given, autocast: Optional[torch.dtype]) -> sdpa_choice.Call:
    mask = given.get("attn_mask")
    query, key, value = (_tensor(given[name], autocast) for name in ARGUMENTS[:3])
    return sdpa_choice.Call(
        query=query,
        key=key,
        value=value,
        mask=_tensor(mask, autocast) if isinstance(mask, torch.Tensor) else None,
        causal=bool(given.get("is_causal") or False),
        dropout=float(given.get("dropout_p") or 0.0),
        enable_gqa=bool(given.get("enable_gqa") or False),
        grad_mode=torch.is_grad_enabled(),
    )


def _tensor(tensor: torch.Tensor, autocast: Optional[torch.dtype]) -> sdpa_choice.Tensor:
    dtype = tensor.dtype
    if autocast is not None and dtype in (*ops.HALVES, torch.float32):
        dtype = autocast
    return sdpa_choice.Tensor(
        shape=tuple(int(n) for n in tensor.shape),
        dtype=ops.short(dtype),
        strides=tuple(int(n) for n in tensor.stride()),
        requires_grad=bool(tensor.requires_grad),
        storage_offset=int(tensor.storage_offset()),
    )


def _switched_off() -> Tuple[str, ...]:
    backends = torch.backends.cuda
    return tuple(name for name, asks in _SWITCHES.items() if not getattr(backends, asks, lambda: True)())


def _without(choice: sdpa_choice.Choice, call: sdpa_choice.Call, off: Tuple[str, ...]) -> sdpa_choice.Choice:
    """The choice with some backends disabled: the next in torch's order that can take the call."""
    if choice.backend is None:
        return choice
    refused = {**choice.refused, **dict.fromkeys(off, _SWITCHED_OFF)}
    # cuDNN is first or last: if it was first and is disabled, the others follow in this order.
    order = (choice.backend, sdpa_choice.FLASH, sdpa_choice.EFFICIENT, sdpa_choice.MATH, sdpa_choice.CUDNN)
    taken = next((name for name in order if name not in refused), None)
    if taken is None:
        return dataclasses.replace(choice, backend=None, refused=refused, warnings=(), error=NONE_IS_LEFT)
    faults = silent.known_faults(taken, call, version_of(str(torch.__version__)))
    return dataclasses.replace(choice, backend=taken, refused=refused, warnings=faults)
