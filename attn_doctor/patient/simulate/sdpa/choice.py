"""Predicts the backend that scaled_dot_product_attention chooses on a simulated GPU, and why not the others.

A pure function of the call, the GPU and the torch version. The rules and messages are torch's own, from
aten/src/ATen/native/transformers/cuda/sdp_utils.cpp and sdp_utils_cpp.h as released in 2.6 and 2.9.1 and as on main in
August 2026 (https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/transformers/cuda/sdp_utils.cpp); the
header of 2.13 was read in its wheel. If a release in between was not read, and its neighbours differ in a rule that
decides, the answer is marked as uncertain, with the reason.

For dense tensors, NVIDIA, and default switches. Not covered: nested tensors, ROCm, disabled or preferred backends,
deterministic algorithms; `unfit` returns the errors that are raised before any backend is tried.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional, Tuple

from ...dtypes import C10
from ..cuda.simulated_gpu import Gpu
from ..triton.driver import version_of
from . import backends as sdpa_backends
from .rules import CUDNN, EFFICIENT, FLASH, MATH, Call, Situation, Tensor, Version, dotted
from .silent import known_faults

__all__ = ["CUDNN", "EFFICIENT", "FLASH", "MATH", "Call", "Choice", "Tensor", "choose", "unfit"]


@dataclasses.dataclass(frozen=True)
class Choice:
    """torch's choice, and why it rejects the other backends."""

    backend: Optional[str]
    """"flash" | "efficient" | "cudnn" | "math"; None when the call raises before a backend is chosen."""
    refused: Dict[str, str]
    """Backend -> torch's reason, for every backend that cannot take this call. Backends after the chosen one may be
    able to, and are then missing."""
    certain: bool
    doubts: Tuple[str, ...] = ()
    """The rules that are not verified, when uncertain."""
    error: Optional[str] = None
    """The error raised before a backend is chosen."""
    warnings: Tuple[str, ...] = ()
    """Known defects of the chosen backend with such a call."""


def choose(call: Call, gpu: Gpu, torch_version: str, cudnn_version: Optional[int] = None) -> Choice:
    """The backend that torch `torch_version` chooses for `call` on `gpu`, with default switches.

    cudnn_version: as returned by torch.backends.cudnn.version() (91900 for 9.19); None: that of the release's own
    wheel, if known. Raises ValueError for a torch older than 2.1, whose rules were not read.
    """
    version = version_of(torch_version)
    if version < (2, 1):
        raise ValueError(f"the rules of torch {torch_version} are not known here: 2.1 is the oldest")
    error = unfit(call, version)
    if error is not None:
        return Choice(backend=None, refused={}, certain=True, error=error)
    cudnn = cudnn_version if cudnn_version is not None else wheel_cudnn(version)
    refused: Dict[str, str] = {}
    doubts: Dict[str, List[str]] = {MATH: []}
    for backend, judge in (
        (CUDNN, sdpa_backends.cudnn),
        (FLASH, sdpa_backends.flash),
        (EFFICIENT, sdpa_backends.efficient),
    ):
        asked = Situation(call, gpu, version, cudnn, [])
        reason = judge(asked)
        doubts[backend] = asked.doubts
        if reason is not None:
            refused[backend] = reason
    asked = Situation(call, gpu, version, cudnn, [])
    order = _order(asked)
    backend = next(name for name in order if name not in refused)
    # Only doubts about the chosen backend and earlier ones could change the answer; doubts about the order matter only
    # if cuDNN, whose position changed, can take this call.
    matter = [doubt for name in order[: order.index(backend) + 1] for doubt in doubts[name]]
    if CUDNN not in refused:
        matter = asked.doubts + matter
    unique = tuple(dict.fromkeys(matter))
    return Choice(
        backend=backend,
        refused=refused,
        certain=not unique,
        doubts=unique,
        warnings=known_faults(backend, call, version),
    )


def unfit(call: Call, version: Version) -> Optional[str]:
    """The error that torch raises before it tries any backend, or None. Equal on every GPU."""
    query, key, value = call.tensors
    if not query.dtype == key.dtype == value.dtype:
        names = [C10.get(tensor.dtype, tensor.dtype) for tensor in call.tensors]
        return (
            f"Expected query, key, and value to have the same dtype, but got query.dtype: {names[0]} "
            f"key.dtype: {names[1]} and value.dtype: {names[2]} instead."
        )
    if min(len(tensor.shape) for tensor in call.tensors) < 2:
        dims = [len(tensor.shape) for tensor in call.tensors]
        return (
            f"Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {dims[0]} "
            f"key.dim: {dims[1]} and value.dim: {dims[2]} instead."
        )
    if call.mask is None:
        return None
    allowed = {"bool", query.dtype} | ({"float32"} if version >= (2, 4) else set())
    if call.mask.dtype not in allowed:
        expected = "bool or float or to match" if version >= (2, 4) else "bool or to match"
        mask = C10.get(call.mask.dtype, call.mask.dtype)
        own = C10.get(query.dtype, query.dtype)
        return (
            f"Expected attn_mask dtype to be {expected} query dtype, but got attn_mask.dtype: {mask} and  "
            f"query.dtype: {own} instead."
        )
    return None


def _order(asked: Situation) -> Tuple[str, ...]:
    if asked.version == (2, 4):
        # There only with TORCH_CUDNN_SDPA_ENABLED=1.
        return FLASH, EFFICIENT, MATH
    if asked.version == (2, 5):
        if asked.gpu.capability[0] >= 9:
            asked.doubts.append("2.5.0 prefers cuDNN on 9.0, 2.5.1 no longer does; 2.5.1 is assumed")
        return FLASH, EFFICIENT, MATH, CUDNN
    if asked.version in ((2, 7), (2, 8)):
        if asked.gpu.capability[0] in (9, 10):
            asked.doubts.append(f"whether torch {dotted(asked.version)} prefers cuDNN there is UNVERIFIED")
        return FLASH, EFFICIENT, MATH, CUDNN
    if asked.version >= (2, 9) and _prefers_cudnn(asked):
        return CUDNN, FLASH, EFFICIENT, MATH
    return FLASH, EFFICIENT, MATH, CUDNN


def _prefers_cudnn(asked: Situation) -> bool:
    capability, needed = asked.gpu.capability, 90900 if asked.version == (2, 9) else 91501
    if asked.version == (2, 9):
        if capability not in ((9, 0), (10, 0)):
            return False
    elif capability[0] not in (9, 10):
        return False
    if asked.cudnn is None:
        asked.doubts.append("which cuDNN is installed is not known, and it decides whether cuDNN comes first")
        return asked.version >= (2, 11)
    return asked.cudnn >= needed


def wheel_cudnn(version: Version) -> Optional[int]:
    """cuDNN of the release's default wheel on the registry, as pinned in its metadata."""
    if version in ((2, 9), (2, 10)):
        return 91002
    if version == (2, 11):
        return 91900
    return {(2, 12): 92000, (2, 13): 92000, (2, 14): 92400, (2, 15): 92600}.get(version)
