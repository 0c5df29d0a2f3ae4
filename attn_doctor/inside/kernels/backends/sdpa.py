"""torch.nn.functional.scaled_dot_product_attention: one backend alone, or as torch picks."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Optional

import torch
import torch.nn.functional as F

from ..problems import Problem
from ..registry import Backend

_NAMES = {
    "sdpa-flash": "FLASH_ATTENTION",
    "sdpa-efficient": "EFFICIENT_ATTENTION",
    "sdpa-cudnn": "CUDNN_ATTENTION",
    "sdpa-math": "MATH",
}


def restricted(name: str) -> Any:
    """A context in which torch may use the backend `name` alone; any, for "sdpa-default"."""
    if name not in _NAMES:
        return contextlib.nullcontext()
    if hasattr(torch.nn, "attention") and hasattr(torch.nn.attention, "sdpa_kernel"):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel([getattr(SDPBackend, _NAMES[name])])
    return torch.backends.cuda.sdp_kernel(
        enable_flash=name == "sdpa-flash",
        enable_math=name == "sdpa-math",
        enable_mem_efficient=name == "sdpa-efficient",
    )


def arguments(problem: Problem) -> Dict[str, Any]:
    given: Dict[str, Any] = {
        "attn_mask": problem.mask,
        "dropout_p": 0.0,
        "is_causal": problem.causal,
        "scale": problem.scale,
    }
    if problem.gqa:
        given["enable_gqa"] = True
    return given


def prepare(problem: Problem, backend: Backend) -> Callable[[], torch.Tensor]:
    given = arguments(problem)

    def compute() -> torch.Tensor:
        with restricted(backend.name):
            return F.scaled_dot_product_attention(problem.q, problem.k, problem.v, **given)

    return compute


def chosen(problem: Problem) -> Optional[str]:
    """The backend that torch picks for this call; None where it cannot be asked."""
    ask = getattr(torch, "_fused_sdp_choice", None)
    if ask is None or problem.device.type != "cuda":
        return None
    given = arguments(problem)
    number = ask(problem.q, problem.k, problem.v, **given)
    return {0: "math", 1: "flash", 2: "efficient", 3: "cudnn"}.get(int(number))
