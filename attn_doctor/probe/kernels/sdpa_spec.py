"""Parses a call of scaled_dot_product_attention from the command line: `q=2x32x4096x128:bf16 mask=bool train`.

q=BATCHxHEADSxLENGTHxDIM:DTYPE   required; k and v likewise, default as q (v as k)
mask=DTYPE[:SHAPE]               an attn_mask, LENGTH x LENGTH unless its shape is given
causal · train · gqa             is_causal, inputs that require gradients, enable_gqa
dropout=P                        dropout_p
"""

from __future__ import annotations

import difflib
import re
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.model.dtypes import SPELLED

_FLAGS = ("causal", "train", "gqa")
_KEYS = ("q", "k", "v", "mask", "dropout")
_EXAMPLE = "For example: --explain-sdpa 'q=2x32x4096x128:bf16 mask=bool train'"


def parse(text: str) -> dict[str, Any]:
    """The call, in the form that patient/kernels/explain_sdpa.py takes.

    Raises BadInput with the fault and an example.
    """
    given: dict[str, str] = {}
    flags: set[str] = set()
    for word in text.replace(",", " ").split():
        key, equals, value = word.partition("=")
        if not equals and key in _FLAGS:
            flags.add(key)
        elif equals and key in _KEYS and value:
            if key in given:
                raise _bad(text, f"{key} is given twice")
            given[key] = value
        else:
            close = difflib.get_close_matches(key, (*_FLAGS, *_KEYS), n=1, cutoff=0.5)
            raise _bad(text, f"{word!r} is not understood" + (f"; did you mean {close[0]}?" if close else ""))
    if "q" not in given:
        raise _bad(text, "it names no q")
    q_shape, q_dtype = _tensor(text, "q", given["q"], None)
    k_shape, k_dtype = _tensor(text, "k", given["k"], q_dtype) if "k" in given else (q_shape, q_dtype)
    v_shape, v_dtype = _tensor(text, "v", given["v"], k_dtype) if "v" in given else (k_shape, k_dtype)
    call: dict[str, Any] = {
        "q": {"shape": q_shape, "dtype": q_dtype},
        "k": {"shape": k_shape, "dtype": k_dtype},
        "v": {"shape": v_shape, "dtype": v_dtype},
        "mask": None,
        "dropout": _dropout(text, given.get("dropout", "0")),
        **{flag: flag in flags for flag in _FLAGS},
    }
    if k_shape[-1] != q_shape[-1]:
        raise _bad(text, f"q has head dimension {q_shape[-1]} and k has {k_shape[-1]}: their product has no meaning")
    if k_shape[-2] != v_shape[-2]:
        raise _bad(text, f"k has {k_shape[-2]} positions and v has {v_shape[-2]}")
    if "mask" in given:
        call["mask"] = _mask(text, given["mask"], q_shape, k_shape)
    return call


def _tensor(text: str, name: str, value: str, default: str | None) -> tuple[list[int], str]:
    shape, _, dtype = value.partition(":")
    if not re.fullmatch(r"\d+(x\d+){3}", shape):
        raise _bad(text, f"{name}={value}: a shape is BATCHxHEADSxLENGTHxDIM, four numbers")
    sizes = [int(size) for size in shape.split("x")]
    if not all(0 < size < 2**31 for size in sizes):
        raise _bad(text, f"{name}={value}: every size is at least 1, and below 2³¹")
    if not dtype and default is None:
        raise _bad(text, f"{name}={value} has no dtype: write {name}={shape}:bf16")
    found = SPELLED.get(dtype.lower()) if dtype else default
    if found is None or found == "bool":
        raise _bad(text, f"{name}={value}: no such dtype; give bf16, fp16, fp32 or fp64")
    return sizes, found


def _mask(text: str, value: str, q: list[int], k: list[int]) -> dict[str, Any]:
    dtype, _, shape = value.partition(":")
    found = SPELLED.get(dtype.lower())
    if found is None:
        raise _bad(text, f"mask={value}: no such dtype; give bool, bf16, fp16 or fp32")
    sizes = [q[-2], k[-2]]
    if shape:
        if not re.fullmatch(r"\d+(x\d+)*", shape):
            raise _bad(text, f"mask={value}: a shape is written 4096x4096 or 2x1x4096x4096")
        sizes = [int(size) for size in shape.split("x")]
    wanted = [q[0], q[1], q[-2], k[-2]]
    if (
        len(sizes) < 2
        or len(sizes) > 4
        or any(size not in (1, full) for size, full in zip(reversed(sizes), reversed(wanted), strict=False))
    ):
        full = "x".join(str(size) for size in wanted)
        raise _bad(text, f"mask={value}: this shape does not spread over scores of {full}")
    return {"shape": sizes, "dtype": found}


def _dropout(text: str, value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = -1.0
    if not 0.0 <= found < 1.0:
        raise _bad(text, f"dropout={value}: give a number from 0 to below 1")
    return found


def _bad(text: str, what: str) -> BadInput:
    return BadInput(what, about=f"--explain-sdpa {text!r}", hint=_EXAMPLE)
