"""calls/1: the forms of a model's attention calls, kept by `trace --record` and judged by `check --replay`.

A form: shapes, strides, dtypes, flags, and no value of any tensor; patient/trace/meet/forms.py (`Form`) has them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attn_doctor.errors import BadInput
from attn_doctor.machine import files

FORMAT = "calls/1"
_MOST_BYTES = 16 << 20
_HINT = "`attn-doctor trace … --record FILE` writes one."
_FLAGS = ("causal", "gqa", "scale", "window", "softcap", "documents")


def text_of(answer: Mapping[str, Any]) -> str:
    """The file's text, from the answer of a traced run."""
    rules = answer.get("rules") or {}
    entry = answer.get("entry") or {}
    written = {
        "format": FORMAT,
        "of": entry.get("words"),
        "torch": rules.get("torch"),
        "gpu": (rules.get("gpu") or {}).get("name"),
        "calls": answer.get("forms") or [],
    }
    return json.dumps(written, indent=1) + "\n"


def read(file: Path) -> tuple[dict[str, Any], ...]:
    """The calls of a file. Raises BadInput when it cannot be read or is no such file."""
    about = f"--replay {file}"
    try:
        written = json.loads(files.read_input(file, most=_MOST_BYTES))
    except OSError as error:
        raise BadInput(f"it cannot be read: {error.strerror}", about=about, hint=_HINT) from None
    except ValueError:
        raise BadInput("it is no JSON", about=about, hint=_HINT) from None
    if not isinstance(written, dict) or written.get("format") != FORMAT or not isinstance(written.get("calls"), list):
        raise BadInput(f"it is not in the format {FORMAT}", about=about, hint=_HINT)
    if not written["calls"]:
        raise BadInput("it holds no attention call", about=about, hint="The traced program made none that is known.")
    for number, call in enumerate(written["calls"], 1):
        why = _why_not(call)
        if why:
            raise BadInput(f"its call {number} is damaged: {why}", about=about, hint=_HINT)
    return tuple(written["calls"])


def _why_not(call: Any) -> str:
    if not isinstance(call, dict) or not isinstance(call.get("flags"), dict):
        return "it has no flags"
    if any(name not in call["flags"] for name in _FLAGS):
        return "its flags are not complete"
    for key in ("shapes", "dtypes"):
        if not isinstance(call.get(key), dict) or not {"q", "k", "v"} <= call[key].keys():
            return f"it has no {key}"
    for role, shape in call["shapes"].items():
        if not isinstance(shape, list) or not 2 <= len(shape) <= 4 or not all(_size(one) for one in shape):
            return f"the shape of {role} is no list of 2 to 4 sizes"
        strides = (call.get("strides") or {}).get(role)
        fits = isinstance(strides, list) and len(strides) == len(shape)
        if strides is not None and not (fits and all(isinstance(one, int) and one >= 0 for one in strides)):
            return f"the strides of {role} do not fit its shape"
        if not isinstance(call["dtypes"].get(role), str):
            return f"the dtype of {role} is not named"
    return ""


def _size(one: object) -> bool:
    return isinstance(one, int) and not isinstance(one, bool) and 0 <= one < 1 << 31
