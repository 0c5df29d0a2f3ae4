"""scaled_dot_product_attention's contract: autocast mends q, k and v; the backend that is taken decides on the mask.

Sources: pytorch aten/src/ATen/native/transformers/{attention.cpp,cuda/sdp_utils.cpp} (2.0 to 2.13).
"""

from __future__ import annotations

from typing import Any, List, Optional

import torch

from .. import ops
from .clauses import RAISES, REPAIRED, SILENT, Clause, Operands, equal_dtypes, release_of

_MASK = "attn_mask is bool, or has the dtype of q"
_AFTERWARDS = "raises afterwards: "
"""How a warning of sdpa_choice begins that speaks of an error of the backend taken."""


def sdpa(operands: Operands, autocast: Optional[torch.dtype], torch_version: str, choice: Any) -> List[Clause]:
    """torch.nn.functional.scaled_dot_product_attention: it stands on autocast's list, which mends q, k, v.

    `choice` is which backend torch would take (virtual_gpu.sdpa_choice.Choice), None where that is not known.
    """
    q, k, v = (operands[r].dtype for r in "qkv")
    repaired = autocast is not None and all(operands[r].dtype in (*ops.HALVES, torch.float32) for r in "qkv")
    message = (
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and "
        "value.dtype: {} instead.".format(ops.c10_name(q), ops.c10_name(k), ops.c10_name(v))
    )
    effect = REPAIRED if repaired else RAISES
    clauses = [equal_dtypes(operands, autocast, effect, message)]
    if repaired and clauses[0].kept and q != autocast:
        clauses.append(Clause("q, k and v have autocast's dtype", False, REPAIRED, "", ("q", "k", "v")))
    mask = operands.get("mask")
    if mask is not None and mask.dtype != torch.bool:
        clauses.extend(_sdpa_mask(mask.dtype, q, repaired, torch_version, choice))
    if choice is not None:
        clauses.extend(_sdpa_backend(choice))
    return clauses


def _sdpa_mask(mask: torch.dtype, q: torch.dtype, repaired: bool, torch_version: str, choice: Any) -> List[Clause]:
    if mask == q or (repaired and mask in ops.FLOATS):
        return [Clause(_MASK, True)]
    if mask == torch.float32 and release_of(torch_version) >= (2, 4):
        # Accepted at the door; what happens next depends on the backend that is chosen.
        if choice is None:
            return []
        for warning in choice.warnings:
            if not warning.startswith(_AFTERWARDS):
                return [Clause(_MASK, False, SILENT, warning, ("mask",))]
            if "dtype" in warning:
                return [Clause(_MASK, False, RAISES, warning[len(_AFTERWARDS) :], ("mask",))]
        return [Clause(_MASK + ", or the backend taken casts it", True)]
    text = "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
    names = ops.c10_name(mask), ops.c10_name(q)
    message = text + "attn_mask.dtype: {} and  query.dtype: {} instead.".format(*names)
    return [Clause(_MASK, False, RAISES, message, ("mask",))]


def _sdpa_backend(choice: Any) -> List[Clause]:
    """What no dtype is to blame for: switches that leave no backend, and a mask beside is_causal."""
    clauses = []
    if choice.backend is None and choice.refused:
        clauses.append(Clause("a backend that takes the call is switched on", False, RAISES, choice.error or ""))
    for warning in choice.warnings:
        if warning.startswith(_AFTERWARDS) and "dtype" not in warning:
            words = "not both a mask and is_causal are given"
            clauses.append(Clause(words, False, RAISES, warning[len(_AFTERWARDS) :]))
    return clauses
