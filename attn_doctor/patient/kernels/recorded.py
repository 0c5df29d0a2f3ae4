"""Trials of the calls that a model makes: forms recorded by `trace --record` become situations. Does not need torch."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..libraries import LIBRARIES
from ..libraries.contract import Described
from . import situations
from .cells import DTYPES, Cell
from .operands import Shapes
from .situations import Situation

Form = Mapping[str, Any]


def add(forms: List[Form]) -> List[Tuple[Situation, Optional[str]]]:
    """Makes a situation of each form, and names it in situations.NAMED; with the reason why it cannot be tried."""
    found = []
    for number, form in enumerate(forms, 1):
        place = form.get("place")
        words = "your call {}".format(number) + (" ({})".format(place) if place else "")
        situation = Situation("call-{}".format(number), words, recorded=form)
        situations.NAMED[situation.name] = situation
        found.append((situation, why_not(form)))
    return found


def cell_of(backend: str, situation: Situation) -> Cell:
    """The trial of that call by that backend, with gradients where the model took some."""
    form = situation.recorded
    shapes = shapes_of(form)
    return Cell(
        backend,
        shapes.q.kind,
        shapes.q.shape[3],
        _form(shapes),
        "train" if form.get("trains") else "forward",
        situation=situation.name,
    )


def form_of(cell: Cell, shapes: Shapes, chosen: Optional[str]) -> Dict[str, Any]:
    """The form of a trial's call, as `trace --record` keeps those of a model. `chosen`: what the library picked."""
    operands = {"q": shapes.q, "k": shapes.k, "v": shapes.v, "mask": shapes.mask}
    described = {role: one for role, one in operands.items() if one is not None}
    of_torch = cell.backend.startswith("sdpa-")
    where = [one for one in LIBRARIES if cell.backend in {backend.name for backend in one.backends}]
    return {
        "name": "scaled_dot_product_attention" if of_torch else cell.backend,
        "library": where[0].top_level if where else cell.backend.partition(":")[0],
        "by_heads": True,
        "dtypes": {role: one.kind for role, one in described.items()},
        "shapes": {role: list(one.shape) for role, one in described.items()},
        "strides": {role: None if one.stride is None else list(one.stride) for role, one in described.items()},
        "flags": {
            "causal": shapes.causal,
            "documents": None if shapes.documents is None else len(shapes.documents),
        },
        "trains": cell.direction == "train",
        "backend": (chosen if cell.backend == "sdpa-default" else cell.backend[5:]) if of_torch else None,
    }


def used(form: Form, backend: str) -> bool:
    """True when the model makes the call with this backend: torch chooses anew on each GPU."""
    if form["name"] == "scaled_dot_product_attention":
        return backend == "sdpa-default"
    where = [one for one in LIBRARIES if one.top_level == form["library"] and one.backends]
    return bool(where) and backend in {one.name for one in where[0].backends}


def _form(shapes: Shapes) -> str:
    if shapes.documents is not None:
        return "varlen"
    if shapes.window is not None:
        return "window"
    if shapes.softcap is not None:
        return "softcap"
    if shapes.mask is not None:
        wide = shapes.mask.kind == "float32" != shapes.q.kind
        return "bool-mask" if shapes.mask.kind == "bool" else "fp32-mask" if wide else "half-mask"
    return "gqa" if shapes.gqa and shapes.causal else "causal" if shapes.causal else "dense"


def why_not(form: Form) -> Optional[str]:
    """Why a recorded call cannot be repeated, or None."""
    try:
        shapes = shapes_of(form)
    except (ValueError, IndexError, KeyError, TypeError):
        return "its shapes are not those of an attention call"
    if len({one.kind for one in (shapes.q, shapes.k, shapes.v)}) > 1:
        return "q, k and v have different dtypes, which `trace` judges"
    if shapes.q.kind not in DTYPES:
        return "trials are made in bfloat16, float16 and float32, not in {}".format(shapes.q.kind)
    if shapes.q.shape[3] != shapes.k.shape[3] or shapes.q.shape[1] % max(shapes.k.shape[1], 1):
        return "its shapes are not those of an attention call"
    if 0 in (*shapes.q.shape, *shapes.k.shape, *shapes.v.shape):
        return "it has no element"
    if shapes.documents is not None and shapes.q.shape[2] != shapes.k.shape[2]:
        return "it packs queries and keys of different lengths, which the record does not hold"
    window = form["flags"]["window"]
    if window and window[1] not in (0, -1) or window and window[0] >= 0 and window[1] != 0:
        return "its window looks ahead"
    if shapes.causal and shapes.q.shape[2] != shapes.k.shape[2]:
        return "it is causal with fewer queries than keys, which libraries align differently"
    return None


def shapes_of(form: Form) -> Shapes:
    """The call as descriptions (batch, heads, length, head_dim). Raises ValueError or KeyError for other calls."""
    flags: Dict[str, Any] = form["flags"]
    packed = flags["documents"] is not None
    q, k, v = (_described(form, role, packed=packed) for role in "qkv")
    mask = None
    if "mask" in form["shapes"]:
        shape, strides = _whole(form, "mask")
        missing = 4 - len(shape)
        shape = (*[1] * missing, *shape)
        strides = None if strides is None else (*[0] * missing, *strides)
        mask = Described(_kind(form, "mask"), shape, strides)
    window = flags["window"]
    reach = int(window[0]) + 1 if window and window[0] >= 0 else None
    return Shapes(
        q=q,
        k=k,
        v=v,
        mask=mask,
        causal=not packed and reach is None and (bool(flags["causal"]) or window == [-1, 0]),
        gqa=q.shape[1] != k.shape[1],
        window=reach,
        softcap=flags["softcap"],
        documents=_documents(int(flags["documents"]), q.shape[2]) if packed else None,
        scale=flags["scale"],
    )


def _kind(form: Form, role: str) -> str:
    """The dtype that the kernel gets: torch's own functions are cast by autocast."""
    kind = str(form["dtypes"][role])
    cast = form.get("autocast") and form.get("by_heads") and kind != "bool"
    return str(form["autocast"]) if cast else kind


def _whole(form: Form, role: str) -> Tuple[Tuple[int, ...], Optional[Tuple[int, ...]]]:
    strides = (form.get("strides") or {}).get(role)
    return tuple(form["shapes"][role]), None if strides is None else tuple(strides)


def _described(form: Form, role: str, *, packed: bool) -> Described:
    shape, strides = _whole(form, role)
    if packed or len(shape) == 3:
        # (tokens, heads, head_dim), or (batch, length, head_dim) of torch's own functions.
        at = 1 if form["by_heads"] else 0
        shape = (*shape[:at], 1, *shape[at:])
        strides = None if strides is None else (*strides[:at], 0, *strides[at:])
    if len(shape) != 4:
        raise ValueError(shape)
    if not form["by_heads"]:
        shape = (shape[0], shape[2], shape[1], shape[3])
        strides = None if strides is None else (strides[0], strides[2], strides[1], strides[3])
    if strides is not None and strides == _contiguous(shape):
        strides = None
    return Described(_kind(form, role), shape, strides)


def _contiguous(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    found: Tuple[int, ...] = ()
    for number in range(len(shape)):
        step = 1
        for size in shape[number + 1 :]:
            step *= size
        found = (*found, step)
    return found


def _documents(count: int, tokens: int) -> Tuple[int, ...]:
    """The lengths are not recorded: as equal as they can be."""
    count = max(count, 1)
    return tuple(tokens // count + (number < tokens % count) for number in range(count))
