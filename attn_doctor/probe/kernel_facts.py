"""Facts of the trials of attention kernels: each sort of trouble once, and how fast each GPU is beside its siblings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attn_doctor.model.facts import Fact
from attn_doctor.probe import xids
from attn_doctor.probe.kernel_state import note_busy, note_state
from attn_doctor.probe.known_kernels import WHOLE
from attn_doctor.probe.noting import Notes

_HOW = "trials on the GPU, held against float64 there (--kernels)"
_SPEED = "a matrix product and a copy on the GPU (--kernels)"
#: As flash-attn, xformers, vLLM and Triton's kernels put it; "head_size", "headdim", "head dimension".
_HEAD_DIM = re.compile(r"head[ _]?(?:dim|size)", re.IGNORECASE)
_TROUBLES = ("wrong", "refused", "crashed", "hung")
_HALVES = ("bfloat16", "float16")
_ORDINARY = ("dense", "causal", "gqa", "varlen", "bool-mask", "half-mask")
FORM_WORDS = {
    "dense": "without a mask",
    "causal": "causal",
    "gqa": "causal with fewer key-value heads",
    "varlen": "packed sequences",
    "bool-mask": "a boolean mask",
    "half-mask": "a mask in the query's half precision",
    "fp32-mask": "a float32 mask",
    "window": "a sliding window",
    "softcap": "soft-capped scores",
}
SHORT = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "fp8"}


def facts(answer: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Troubles and speeds of one answer in the format kernels/1."""
    notes = Notes()
    open_because = gaps(answer)
    groups = troubles(answer)
    if open_because:
        notes.unknown("listed.cell", _HOW, open_because)
    else:
        notes.known("listed.cell", len(groups), _HOW)
    for group in groups:
        _note_trouble(notes, group, answer)
    _note_head_dims(notes, answer)
    _note_speeds(notes, answer)
    return notes.facts()


def gaps(answer: Mapping[str, Any]) -> str:
    """Why not everything that was to run did; empty when it did."""
    if not answer["ran"]:
        return f"no kernel was run: {answer['why_not']}"
    words = [f"GPU {one['index']}: {one['stopped']}" for one in answer["gpus"] if one["stopped"]]
    if answer["not_reached"]:
        words.append(f"{answer['not_reached']} trials were not reached within {answer['budget']:g} s")
    not_run = sum(cell["outcome"] in ("not run", "no memory") for cell in answer["cells"])
    if not_run:
        words.append(f"{not_run} trials could not be run")
    return "; ".join(words)


def sort_of(cell: Mapping[str, Any]) -> str | None:
    """The trouble that a trial met, or None."""
    if cell["outcome"] not in _TROUBLES:
        return None
    if cell["outcome"] == "wrong" and {"NaN", "infinity"} & set(cell["troubles"]):
        return "not finite"
    return str(cell["outcome"])


def troubles(answer: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    """Trials in trouble, those that differ in dtype, head dim or direction alone together; wrong ones first."""
    groups: dict[tuple[str, str, str, str, bool], list[Mapping[str, Any]]] = {}
    for cell in answer["cells"]:
        sort = sort_of(cell)
        if sort is not None:
            key = (cell["backend"], cell["form"], sort, cell["gpu"], refused_by_head_dim(cell))
            groups.setdefault(key, []).append(cell)
    order = ("not finite", "wrong", "crashed", "hung", "refused")
    return [group for _, group in sorted(groups.items(), key=lambda item: order.index(item[0][2]))]


def refused_by_head_dim(cell: Mapping[str, Any]) -> bool:
    """Whether a kernel says itself that it is the head dimension that it does not take."""
    return cell["outcome"] == "refused" and bool(_HEAD_DIM.search(str(cell.get("reason") or "")))


def condition(group: Sequence[Mapping[str, Any]]) -> str:
    """The exact condition, in words. Of several forms each is met in the same dtypes, head dims and directions."""
    named = {cell["dtype"] for cell in group}
    dtypes = " or ".join(word for name, word in SHORT.items() if name in named)
    dims = ", ".join(str(dim) for dim in sorted({cell["head_dim"] for cell in group}))
    directions = {cell["direction"] for cell in group}
    way = {("train",): "in training", ("forward",): "without gradients"}.get(
        tuple(sorted(directions)), "with and without gradients"
    )
    many = "s" if len({cell["head_dim"] for cell in group}) > 1 else ""
    variants = dict.fromkeys(str(cell["variant"]) for cell in group if cell.get("variant"))
    held = f", when its tuning chooses {' or '.join(variants)}" if variants else ""
    forms = " or ".join(dict.fromkeys(FORM_WORDS[cell["form"]] for cell in group))
    return f"{dtypes} q, k and v, {forms}, head dim{many} {dims}, {way}{held}"


def worst(group: Iterable[Mapping[str, Any]]) -> str:
    """How far off, in words; or a kernel's own last words."""
    group = list(group)
    reasons = [str(cell["reason"]) for cell in group if cell.get("reason")]
    if reasons:
        return reasons[0]
    found: list[tuple[float, str, Mapping[str, Any]]] = []
    words: list[str] = []
    for cell in group:
        words += [word for word in cell.get("troubles", ()) if word != "error"]
        for name, error in (cell.get("errors") or {}).items():
            if error["relative"] is not None and error["relative"] > error["limit"]:
                found.append((error["relative"] / error["limit"], name, error))
    if found:
        _, name, error = max(found, key=lambda one: one[0])
        words.append(
            f"{name} is off by {_size(error['relative'])}, where {error['limit']:.2g} is allowed; "
            f"largest difference {_digits(error['max'] or 0.0)}"
        )
    return "; ".join(dict.fromkeys(words)) or "wrong"


def _size(relative: float) -> str:
    return f"{relative:.2g} of its size" if relative < 10 else f"{_digits(relative)} times its size"


def _digits(number: float) -> str:
    """Three of them, and no power of ten where people read none: 1053, not 1.05e+03."""
    return f"{number:.0f}" if 100 <= number < 1e6 else f"{number:.3g}"


def told(group: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]) -> str:
    """The same, with the Xids that the GPU told while they ran."""
    heard = _xids(group, answer)
    return f"{worst(group)}; meanwhile the GPU told {', '.join(heard)}" if heard else worst(group)


def _xids(group: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]) -> tuple[str, ...]:
    return xids.in_words(dict.fromkeys(number for cell in group for number in cell.get("xids", ())), answer)


def everyday(group: Sequence[Mapping[str, Any]]) -> bool:
    """Whether any training with this backend meets it."""
    return group[0]["form"] in _ORDINARY and any(
        cell["dtype"] in _HALVES and (cell["backend"] in WHOLE or ":" in cell["backend"]) for cell in group
    )


def _note_trouble(notes: Notes, group: Sequence[Mapping[str, Any]], answer: Mapping[str, Any]) -> None:
    first = group[0]
    sort = sort_of(first) or ""
    what = f"head-dim-{first['form']}" if refused_by_head_dim(first) else first["form"]
    own = f"cell.{first['backend']}-{what}-{sort.replace(' ', '-')}-gpu{first['gpu']}."
    titles = _titles(answer)
    chosen = tuple(dict.fromkeys(str(cell["chosen"]) for cell in group if cell.get("chosen")))
    notes.known(own + "outcome", sort, _HOW)
    notes.known(own + "backend", first["backend"], _HOW)
    notes.known(own + "title", titles.get(first["backend"], first["backend"]), _HOW)
    notes.known(own + "form", first["form"], _HOW)
    notes.known(own + "condition", condition(group), _HOW)
    if str(first["gpu"]).isdigit():
        notes.known(own + "gpu", int(first["gpu"]), _HOW)
    else:
        notes.absent(own + "gpu", _HOW, "not on a GPU")
    notes.known(own + "trials", len(group), _HOW)
    notes.known(own + "everyday", everyday(group), _HOW)
    notes.known(own + "error", told(group, answer), _HOW)
    notes.known_or_absent(own + "chosen", chosen, _HOW)
    notes.known_or_absent(own + "xids", _xids(group, answer), _HOW)


def _note_head_dims(notes: Notes, answer: Mapping[str, Any]) -> None:
    """The calls that a kernel refused for their head dimension, as calls of attention that it does not take."""
    for cell in answer["cells"]:
        if not refused_by_head_dim(cell):
            continue
        own = f"attention.{cell['backend']}-head-dim-{cell['head_dim']}."
        notes.known(own + "trial", f"{cell['backend']}-head-dim", _HOW)
        notes.known(own + "name", _titles(answer).get(cell["backend"], cell["backend"]), _HOW)
        notes.known(own + "head_dim", int(cell["head_dim"]), _HOW)
        notes.known(own + "broken", (f"not met: the head dim is one that it takes ({cell['reason']})",), _HOW)
        notes.known(own + "error", str(cell["reason"]), _HOW)


def _titles(answer: Mapping[str, Any]) -> dict[str, str]:
    return {one["name"]: one["title"] for one in answer["backends"]}


def _note_speeds(notes: Notes, answer: Mapping[str, Any]) -> None:
    measured = [gpu for gpu in answer["gpus"] if gpu["ceilings"]]
    if not answer["ran"]:
        notes.unknown("listed.speed", _SPEED, f"no kernel was run: {answer['why_not']}")
        return
    notes.known("listed.speed", len(measured), _SPEED)
    for gpu in measured:
        own = f"speed.{gpu['index']}."
        notes.known(own + "index", str(gpu["index"]), _SPEED)
        notes.known_or_absent(own + "gpu", gpu["name"], _SPEED)
        notes.known_or_absent(own + "matmul_tflops", half_matmul(gpu), _SPEED)
        notes.known_or_absent(own + "copy_gbs", gpu["ceilings"].get("copy"), _SPEED)
        share, beside = of_fastest_sibling(gpu, measured)
        notes.known_or_absent(own + "of_fastest_sibling", share, _SPEED, "no other GPU of its kind is here")
        notes.known_or_absent(own + "slower_than", beside, _SPEED, "no other GPU of its kind is here")
        note_state(notes, own, gpu, answer)
        note_busy(notes, own, gpu)


def half_matmul(gpu: Mapping[str, Any]) -> float | None:
    """TFLOP/s of the matrix product in bf16, in fp16 where a GPU has no bf16."""
    value = gpu["ceilings"].get("matmul_bfloat16") or gpu["ceilings"].get("matmul_float16")
    return float(value) if value else None


def of_fastest_sibling(
    gpu: Mapping[str, Any], measured: Sequence[Mapping[str, Any]]
) -> tuple[float | None, str | None]:
    """Per cent of the best GPU of its kind on the node, in the worse of two measurements; and which that is."""
    kind = (gpu["name"], gpu["compute_capability"])
    siblings = [one for one in measured if (one["name"], one["compute_capability"]) == kind]
    if len(siblings) < 2:
        return None, None
    shares: list[tuple[float, str]] = []
    for what, of in (("matrix product", half_matmul), ("copy", lambda one: one["ceilings"].get("copy"))):
        values = {str(one["index"]): of(one) for one in siblings if of(one)}
        if str(gpu["index"]) in values:
            best = max(values, key=lambda index: values[index] or 0.0)
            share = 100.0 * (values[str(gpu["index"])] or 0.0) / (values[best] or 1.0)
            shares.append((round(share, 1), f"GPU {best} ({what})"))
    return min(shares) if shares else (None, None)
