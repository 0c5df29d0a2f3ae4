"""What each attention kernel demands of its operands, in words, and what happens where it is not met.

A contract reads dtypes, shapes and layouts; it runs nothing. The messages are the kernels' own, in the order
in which they check. Sources: Dao-AILab/flash-attention csrc/flash_attn/flash_api.cpp and hopper/ (tags 2.0.0
to 2.8.3), pytorch aten/src/ATen/native/transformers/{attention.cpp,cuda/sdp_utils.cpp} (2.0 to 2.13),
facebookresearch/xformers xformers/ops/fmha/common.py.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

import torch

from . import ops

RAISES, SILENT, REPAIRED = "raises", "silent", "repaired"


class Operand:
    """One operand of an attention call, without its tensor."""

    __slots__ = ("dtype", "last_stride", "node", "role", "shape", "stride")

    def __init__(self, role: str, tensor: torch.Tensor, node: Any) -> None:
        self.role = role
        self.dtype = tensor.dtype
        self.shape = tuple(int(n) if isinstance(n, int) else str(n) for n in tensor.shape)
        try:
            self.stride: Optional[Tuple[int, ...]] = tuple(int(n) for n in tensor.stride())
        except (RuntimeError, TypeError):
            self.stride = None  # sparse, nested or symbolic
        self.node = node

    @classmethod
    def described(cls, role: str, dtype: torch.dtype, shape: Tuple[Any, ...], node: Any) -> Operand:
        """One whose tensor is gone."""
        operand = cls.__new__(cls)
        operand.role, operand.dtype, operand.shape, operand.stride, operand.node = role, dtype, shape, None, node
        return operand

    @property
    def head_dim(self) -> Any:
        return self.shape[-1] if self.shape else None


class Clause:
    """One sentence of a contract, and whether it was kept."""

    __slots__ = ("blamed", "effect", "kept", "message", "words")

    def __init__(
        self, words: str, kept: bool, effect: str = RAISES, message: str = "", blamed: Tuple[str, ...] = ()
    ) -> None:
        self.words = words
        self.kept = kept
        self.effect = effect
        self.message = message
        self.blamed = blamed

    def as_json(self) -> Dict[str, Any]:
        return {
            "words": self.words,
            "kept": self.kept,
            "effect": None if self.kept else self.effect,
            "message": None if self.kept else (self.message or None),
            "operands": list(self.blamed),
        }


Operands = Dict[str, Operand]


def wanted_dtype(operands: Operands, autocast: Optional[torch.dtype]) -> Optional[torch.dtype]:
    """The dtype that the operands were meant to have: autocast's, else the half type most of them have."""
    if autocast is not None:
        return autocast
    halves = [operands[r].dtype for r in ("v", "k", "q") if r in operands and operands[r].dtype in ops.HALVES]
    if not halves:
        return None
    return max(halves, key=halves.count)


def _odd(operands: Operands, autocast: Optional[torch.dtype], roles: Tuple[str, ...] = ("q", "k", "v")) -> Any:
    """The operands that break equality: those that are not what they were meant to be."""
    present = [r for r in roles if r in operands]
    if len({operands[r].dtype for r in present}) <= 1:
        return ()
    wanted = wanted_dtype(operands, autocast)
    if wanted is None or all(operands[r].dtype != wanted for r in present):
        wanted = operands[present[-1]].dtype
    return tuple(r for r in present if operands[r].dtype != wanted)


def equal_dtypes(operands: Operands, autocast: Optional[torch.dtype], effect: str, message: str = "") -> Clause:
    odd = _odd(operands, autocast)
    return Clause("q, k and v have the same dtype", not odd, effect, message, odd)


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


_MASK = "attn_mask is bool, or has the dtype of q"
_AFTERWARDS = "raises afterwards: "
"""How a warning of sdpa_choice begins that speaks of an error of the backend taken."""


def _sdpa_mask(mask: torch.dtype, q: torch.dtype, repaired: bool, torch_version: str, choice: Any) -> List[Clause]:
    if mask == q or (repaired and mask in ops.FLOATS):
        return [Clause(_MASK, True)]
    if mask == torch.float32 and _version(torch_version) >= (2, 4):
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
    release = _version(version)
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
    clauses.append(
        Clause(
            "k has the dtype of q",
            k.dtype == q.dtype,
            RAISES,
            "query and key must have the same dtype",
            _pair(operands, "k"),
        )
    )
    clauses.append(
        Clause(
            "v has the dtype of q",
            v.dtype == q.dtype,
            RAISES,
            "query and value must have the same dtype",
            _pair(operands, "v"),
        )
    )
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


def _pair(operands: Operands, role: str) -> Tuple[str, ...]:
    odd = [r for r in ("q", role) if operands[r].dtype not in ops.HALVES]
    return tuple(odd) or (role,)


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
        Clause(
            "k has the dtype of q",
            k.dtype == q.dtype,
            RAISES,
            "query and key must have the same dtype",
            _pair(operands, "k"),
        ),
        Clause(
            "v has the dtype of q",
            v.dtype == q.dtype,
            RAISES,
            "query and value must have the same dtype",
            _pair(operands, "v"),
        ),
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
            _odd(operands, None),
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


def transformer_engine(operands: Operands) -> List[Clause]:
    """DotProductAttention.forward of transformer_engine.pytorch; its kernels' own limits are not known here.

    https://github.com/NVIDIA/TransformerEngine/tree/main/transformer_engine/pytorch/attention/dot_product_attention
    """
    return [equal_dtypes(operands, None, RAISES, "Queries, keys and values must have the same data type!")]


def xformers(operands: Operands) -> List[Clause]:
    q, k, v = (operands[r].dtype for r in "qkv")
    text = (
        "Query/Key/Value should either all have the same dtype, or (in the quantized case) Key/Value should have "
        "dtype torch.int32\n  query.dtype: {}\n  key.dtype  : {}\n  value.dtype: {}".format(q, k, v)
    )
    clauses = [equal_dtypes(operands, None, RAISES, text)]
    bias = operands.get("mask")
    if bias is not None:
        clauses.append(
            Clause(
                "attn_bias has the dtype of q",
                bias.dtype == q,
                RAISES,
                "invalid dtype for bias - should match query's dtype",
                ("mask",),
            )
        )
    return clauses


def flex(operands: Operands) -> List[Clause]:
    q, k, v = (operands[r].dtype for r in "qkv")
    text = (
        "Expected query, key, and value to have the same dtype, but got query.dtype: {}, key.dtype: {}, and "
        "value.dtype: {} instead.".format(q, k, v)
    )
    return [equal_dtypes(operands, None, RAISES, text)]


def undeclared(operands: Operands, autocast: Optional[torch.dtype]) -> List[Clause]:
    """A kernel that states no contract: unequal operands reach it, and nothing complains."""
    if torch._C._current_autograd_node() is not None:
        # A library's own backward functions keep accumulators in float32 beside half inputs, as they mean to.
        return []
    return [equal_dtypes(operands, autocast, SILENT)]


def _version(text: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0])[:3])
