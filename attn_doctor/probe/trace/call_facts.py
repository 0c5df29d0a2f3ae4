"""Facts about the forms of attention calls: lengths, head dims, layout, mask, for recipes about silent errors.

The forms are those that a traced run keeps (patient/trace/meet/forms.py), a replay reads, and --explain-sdpa names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attn_doctor.model.facts import Fact
from attn_doctor.probe.fact_notes import FactNotes

Form = Mapping[str, Any]
_TILE = 32
_WRAPS = 1 << 32
_SIZES = {"bool": 1, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "float64": 8}
#: Below it another form of call saves no memory that counts.
_LARGE_MASK = 64 << 20


def facts(forms: Sequence[Form], *, how: str, capability: str | None) -> tuple[Fact, ...]:
    """Facts about each form. `capability`: of the GPU for which the calls are judged; None: not on an NVIDIA GPU."""
    notes = FactNotes()
    notes.known("listed.call", len(forms), how)
    for number, form in enumerate(forms):
        _note(notes, f"call.{number}.", form, how, capability)
    return notes.facts()


def of_explained(call: Mapping[str, Any], answer: Mapping[str, Any]) -> Form:
    """The form of a call that --explain-sdpa was asked about."""
    roles = {role: call[role] for role in ("q", "k", "v", "mask") if call.get(role)}
    return {
        "name": "scaled_dot_product_attention",
        "library": "torch",
        "by_heads": True,
        "dtypes": {role: one["dtype"] for role, one in roles.items()},
        "shapes": {role: one["shape"] for role, one in roles.items()},
        "strides": {},
        "flags": {"causal": call["causal"], "documents": None},
        "trains": call["train"],
        "backend": answer["chosen"],
    }


def _note(notes: FactNotes, own: str, form: Form, how: str, capability: str | None) -> None:
    shapes, by_heads = form["shapes"], form["by_heads"]
    packed = form["flags"].get("documents") is not None
    at = -2 if by_heads else -3  # where the length stands
    q, k, v = (shapes[role] for role in ("q", "k", "v"))
    notes.known(own + "name", form["name"], how)
    notes.known(own + "library", form["library"], how)
    notes.known_or_absent(own + "place", form.get("place"), how)
    notes.known_or_absent(own + "backend", form.get("backend"), how, "no call of torch's SDPA, or not foreseen")
    cast = str(form.get("autocast") or "") if by_heads else ""
    notes.known(own + "dtype", cast or str(form["dtypes"]["q"]), how)
    notes.known(own + "causal", bool(form["flags"].get("causal")), how)
    notes.known_or_absent(own + "mask_dtype", form["dtypes"].get("mask"), how, "no mask")
    notes.known(own + "head_dim", q[-1], how)
    notes.known(own + "head_dim_v", v[-1], how)
    notes.known(own + "packed", packed, how)
    notes.known(own + "trains", bool(form["trains"]), how)
    notes.known_or_absent(own + "compute_capability", capability, how, "not judged for an NVIDIA GPU")
    if len(q) >= -at and len(k) >= -at:
        notes.known(own + "q_length", q[at], how)
        notes.known(own + "kv_length", k[at], how)
        notes.known(own + "kv_over_tile", k[at] % _TILE, how)
        notes.known(own + "fewer_queries", q[at] < k[at], how)
    notes.known_or_absent(own + "mask_wraps_at", _wraps_at(form, q[at] if len(q) >= -at else 0), how, "it does not")
    mask = _bytes(form, "mask")
    held = sum(_bytes(form, role) for role in "qkv") + _bytes(form, "q")
    large = mask >= _LARGE_MASK and mask > held and form["name"] == "scaled_dot_product_attention"
    words = f"{mask / (1 << 20):,.0f} MiB of mask, beside {held / (1 << 20):,.1f} MiB of q, k, v and output"
    notes.known_or_absent(own + "mask_cost", words if large else None, how, "no mask, or one that is small")
    notes.known_or_absent(own + "trial", form.get("trial"), how, "no trial of --kernels that came out wrong")
    notes.known_or_absent(own + "situation", form.get("situation"), how, "no trial, or the usual one")
    notes.known_or_absent(
        own + "batch", q[0] if len(q) == 4 and not packed else None, how, "packed, or without a batch"
    )
    for role in ("q", "k", "v"):
        notes.known(f"{own}{role}_layout", _layout(shapes[role], (form.get("strides") or {}).get(role)), how)


def _bytes(form: Form, role: str) -> int:
    """The bytes of an operand; of a mask that repeats in place, those that it really has."""
    shape = form["shapes"].get(role)
    if shape is None:
        return 0
    strides = (form.get("strides") or {}).get(role) or [1] * len(shape)
    count = math.prod(size for size, stride in zip(shape, strides, strict=True) if stride != 0)
    return int(count) * _SIZES.get(str(form["dtypes"][role]), 4)


def _wraps_at(form: Form, queries: int) -> int | None:
    """The first row of the mask whose place does not fit into 32 bits; None where every row's does."""
    shape = form["shapes"].get("mask")
    if shape is None or len(shape) < 2 or shape[-2] < 2:
        return None
    strides = (form.get("strides") or {}).get("mask")
    step = strides[-2] if strides else shape[-1]
    return -(-_WRAPS // step) if step > 0 and (queries - 1) * step >= _WRAPS else None


def _layout(shape: Sequence[int], strides: Sequence[int] | None) -> str:
    """contiguous, expanded (a stride of 0 that repeats), permuted (its last stride is 1), or columns (it is not)."""
    if strides is None:
        return "contiguous"
    step = 1
    expected: list[int] = []
    for size in reversed(shape):
        expected.insert(0, step)
        step *= max(size, 1)
    real = [(one, wanted) for one, wanted, size in zip(strides, expected, shape, strict=True) if size > 1]
    if any(one == 0 for one, _ in real):
        return "expanded"
    if all(one == wanted for one, wanted in real):
        return "contiguous"
    return "permuted" if strides[-1] == 1 else "columns"
