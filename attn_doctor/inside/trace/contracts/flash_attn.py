"""FlashAttention's contracts: 2.x and 3 as their C++ checks them, 4 as its Python asserts do.

Sources: Dao-AILab/flash-attention csrc/flash_attn/flash_api.cpp and hopper/ (tags 2.0.0 to 2.8.3).
"""

from __future__ import annotations

from typing import Any, List, Tuple

import torch

from .. import ops
from .clauses import RAISES, Clause, Operands, odd, release_of


def flash_attn_2(
    operands: Operands,
    version: str,
    capability: Tuple[int, int],
    backward: bool = False,
    dropout: float = 0.0,
    starts: Tuple[Any, ...] = (),
) -> List[Clause]:
    """flash_attn 2.x, in the order of its C++ checks; the first that fails is the one that is raised.

    starts: cu_seqlens_q and cu_seqlens_k of the varlen functions. Held against the kernels themselves by
    tests/inside/trace/test_flash_attn_recorded.py.
    """
    q, k, v = (operands[r] for r in "qkv")
    release = release_of(version)
    major, minor = capability
    if release >= (2, 7, 3):
        arch = major >= 8
    else:
        arch = major == 8 or (major, minor) == (9, 0)
    clauses = [
        Clause(
            "the GPU is an Ampere or newer, and one this version knows",
            arch,
            RAISES,
            "FlashAttention only supports Ampere GPUs or newer.",
        ),
        Clause(
            "q is float16 or bfloat16",
            q.dtype in ops.HALVES,
            RAISES,
            "FlashAttention only support fp16 and bf16 data type",
            ("q",),
        ),
    ]
    clauses.extend(_dtype_of_q(operands))
    for name, start in zip(("cu_seqlens_q", "cu_seqlens_k"), starts):
        right = getattr(start, "dtype", torch.int32) == torch.int32
        clauses.append(Clause(name + " is int32", right, RAISES, name + " must have dtype int32"))
    dim = q.head_dim
    if isinstance(dim, int):
        clauses.append(
            Clause(
                "the head dimension is at most 256",
                dim <= 256,
                RAISES,
                "FlashAttention forward only supports head dimension at most 256",
                ("q",),
            )
        )
        limited = _backward_limit(release, dim, dropout)
        if backward and limited and capability not in ((8, 0), (9, 0)):
            clauses.append(
                Clause("the backward pass fits this GPU at this head dimension", False, RAISES, limited, ("q",))
            )
    clauses.extend(_heads(operands))
    if isinstance(dim, int) and isinstance(k.head_dim, int):
        words = "k and v are as wide as q"
        shape = "k must have shape (batch_size, seqlen_k, num_heads_k, head_size)"
        clauses.append(Clause(words, k.head_dim == dim, RAISES, shape, ("k",)))
    for role, name in (("new_k", "Key"), ("new_v", "Value")):
        if role in operands:
            message = name + " must have the same dtype as query"
            clauses.append(
                Clause(role + " has the dtype of q", operands[role].dtype == q.dtype, RAISES, message, (role,))
            )
    return clauses


def _dtype_of_q(operands: Operands) -> List[Clause]:
    return [
        Clause(
            role + " has the dtype of q",
            operands[role].dtype == operands["q"].dtype,
            RAISES,
            "query and {} must have the same dtype".format(name),
            _pair(operands, role),
        )
        for role, name in (("k", "key"), ("v", "value"))
    ]


def _pair(operands: Operands, role: str) -> Tuple[str, ...]:
    whole = [r for r in ("q", role) if operands[r].dtype not in ops.HALVES]
    return tuple(whole) or (role,)


def _backward_limit(release: Tuple[int, ...], dim: int, dropout: float) -> str:
    needs = "requires A100/A800 or H100/H800"
    if release < (2, 5, 5):
        return "FlashAttention backward for head dim > 192 " + needs if dim > 192 else ""
    if release < (2, 6, 2):
        hit = (dim > 224 and dropout > 0) or 192 < dim <= 224
        text = "FlashAttention backward for head dim 256 with dropout, or head dim 224 with/without dropout "
        return text + needs if hit else ""
    if release < (2, 7, 3):
        return "FlashAttention backward for head dim > 192 with dropout " + needs if dim > 192 and dropout else ""
    return ""


def _heads(operands: Operands) -> List[Clause]:
    q, k = operands["q"], operands["k"]
    if len(q.shape) < 3 or len(k.shape) < 3 or not isinstance(q.shape[-2], int) or not k.shape[-2]:
        return []
    return [
        Clause(
            "the number of k/v heads divides that of q",
            q.shape[-2] % k.shape[-2] == 0,
            RAISES,
            "Number of heads in key/value must divide number of heads in query",
            ("k",),
        )
    ]


def flash_attn_3(operands: Operands, capability: Tuple[int, int], backward: bool = False) -> List[Clause]:
    q, k, v = (operands[r] for r in "qkv")
    fp8 = getattr(torch, "float8_e4m3fn", None)
    hopper = capability[0] >= 9
    allowed = (*ops.HALVES, fp8) if hopper and not backward else ops.HALVES
    text = (
        "FlashAttention only supports fp16, bf16, and fp8_e4m3 data type"
        if hopper
        else "FlashAttention on Ampere/Ada cards only supports fp16 and bf16 data type"
    )
    return [
        Clause(
            "the GPU is an Ampere or newer",
            capability[0] >= 8,
            RAISES,
            "FlashAttention only supports Ampere GPUs or newer.",
        ),
        Clause("q is float16, bfloat16 or (Hopper, forward) float8_e4m3", q.dtype in allowed, RAISES, text, ("q",)),
        *_dtype_of_q(operands),
        Clause(
            "the head dimension is at most 256",
            not isinstance(q.head_dim, int) or q.head_dim <= 256,
            RAISES,
            "FlashAttention forward only supports head dimension at most 256",
            ("q",),
        ),
        *_heads(operands),
    ]


def flash_attn_4(operands: Operands, capability: Tuple[int, int], backward: bool = False) -> List[Clause]:
    """flash_attn.cute 4.0.0b36, interface.py, in the order of its asserts."""
    q, k, v = (operands[r] for r in "qkv")
    fp8 = [getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)]
    clauses = [
        Clause(
            "v is float16 or bfloat16, or float8 on compute capability 10.x",
            v.dtype in ops.HALVES or (v.dtype in fp8 and capability[0] == 10),
            RAISES,
            "FP8 is only supported on SM100 (compute capability 10.x) for FA4 CuTe."
            if v.dtype in fp8
            else "inputs must be float16, bfloat16, fp8 e4m3fn, or fp8 e5m2",
            tuple(r for r in "qkv" if operands[r].dtype not in ops.HALVES),
        ),
        Clause(
            "q and k have the dtype of v",
            q.dtype == k.dtype == v.dtype,
            RAISES,
            "q, k, v, and qv must have the same dtype",
            odd(operands, None),
        ),
        Clause(
            "the GPU is one of compute capability 8.x to 12.x, for a backward pass 9.x to 12.x",
            (9 if backward else 8) <= capability[0] <= 12,
            RAISES,
            "Unsupported compute capability. Supported: {}9.x, 10.x, 11.x, 12.x".format(
                "" if backward and capability[0] == 8 else "8.x, "
            ),
        ),
    ]
    clauses.extend(_heads(operands))
    dims = q.head_dim, v.head_dim
    if capability[0] in (9, 10, 11) and all(isinstance(dim, int) for dim in dims):
        aligned = all(dim % 8 == 0 for dim in dims)
        most = 256 if capability[0] == 9 else 128
        special = capability[0] != 9 and (dims in ((192, 128), (256, 256)) or (dims[0] in (64, 512) and dims[1] == 512))
        clauses.append(
            Clause(
                "the head dimensions are ones that its kernel for this GPU takes",
                aligned and (special or all(8 <= dim <= most for dim in dims)),
                RAISES,
                "(head_dim, head_dim_v)={} is not supported on {}.".format(
                    dims, "SM90" if capability[0] == 9 else "SM100/SM110"
                ),
                ("q",),
            )
        )
    return clauses
