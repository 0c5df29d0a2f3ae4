"""Decoding with a cache: prefill and single tokens give what one pass over all tokens gives."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import torch

from ..trace.record import frames
from . import BROKEN, COULD_NOT_LOOK, NOT_APPLICABLE
from .checks import Check, judged, made
from .compare import difference
from .culprit import Key, Run, layer_of
from .subject import CannotCall, rows_of
from .watched_ops import WatchedOps, own_site

if TYPE_CHECKING:
    from .subject import Subject

_STEPS = 3
_CACHES = (
    "past_key_values",
    "past_key_value",
    "layer_past",
    "kv_cache",
    "cache",
    "past",
    "cache_params",
    "state",
    "states",
)
_POSITIONS = ("start_pos", "input_pos", "offset", "position_offset")


class _NoCache(CannotCall):
    """It takes a cache and returns none, as an encoder that could be a decoder does."""


def cache(subject: Subject) -> Check:
    """Compares outputs of tokens that were decoded one at a time with those of the full pass."""
    name = subject.takes(*_CACHES)
    if name is None:
        return made("cache", NOT_APPLICABLE, "its forward takes no cache")
    length = subject.length
    first = length - _STEPS
    tokens = subject.words(1, length)
    try:
        with torch.no_grad():
            full = subject.outputs(tokens)
            decoded = _decode(subject, name, tokens, first)
    except _NoCache as error:
        return made("cache", NOT_APPLICABLE, str(error))
    except Exception as error:  # noqa: BLE001
        words = "it cannot be decoded here: {}: {}".format(
            type(error).__name__, (str(error).strip().splitlines() or [""])[0][:160]
        )
        return made("cache", COULD_NOT_LOOK, words)
    moved = difference(full[:, first:], decoded)
    bad = "tokens decoded with the cache get other outputs than in one pass"
    found = judged("cache", moved, "prefill and single tokens give what one pass gives", bad, whose="model")
    if found["outcome"] == BROKEN and subject.module is not None:
        with contextlib.suppress(Exception):
            found["culprits"] = _culprits(subject, name, tokens, first)
    return found


def _decode(subject: Subject, name: str, tokens: torch.Tensor, first: int) -> torch.Tensor:
    given = _given(subject, None, name, 0)
    out = subject.call(tokens[:, :first], **given)
    kept = _cache_of(out, name)
    rows = []
    for place in range(first, int(tokens.shape[1])):
        out = subject.call(tokens[:, place : place + 1], **_given(subject, kept, name, place))
        rows.append(rows_of(out, 1))
        kept = _cache_of(out, name)
    return torch.cat(rows, 1)


def _given(subject: Subject, kept: Any, name: str, place: int) -> Dict[str, Any]:
    given: Dict[str, Any] = {}
    if subject.is_transformers or subject.takes("use_cache"):
        given["use_cache"] = True
    if kept is not None:
        given[name] = kept
    position = subject.takes(*_POSITIONS)
    if position is not None and not subject.is_transformers:
        given[position] = place
    return given


def _cache_of(out: Any, name: str) -> Any:
    for wanted in (name, "past_key_values", "cache_params"):
        found = getattr(out, wanted, None) if not isinstance(out, dict) else out.get(wanted)
        if found is not None:
            return found
    if isinstance(out, (list, tuple)) and len(out) > 1:
        return out[1]
    raise _NoCache("its output holds no cache")


def _culprits(subject: Subject, name: str, tokens: torch.Tensor, first: int) -> List[Dict[str, Any]]:
    """The innermost module whose input for the first decoded token agrees with the full pass and whose output does not,
    and the line in it where they part."""
    module = subject.module
    assert module is not None
    length = int(tokens.shape[1])

    def full(run: Run) -> None:
        with torch.no_grad(), run.watching():
            subject.call(tokens)

    def step(run: Run) -> None:
        with torch.no_grad():
            out = subject.call(tokens[:, :first], **_given(subject, None, name, 0))
            kept = _cache_of(out, name)
            with run.watching():
                subject.call(tokens[:, first : first + 1], **_given(subject, kept, name, first))

    whole, single = Run(module), Run(module)
    full(whole)
    step(single)
    guilty: List[Key] = []
    for key in whole.order:
        one, two = whole.seen[key], single.seen.get(key)
        if two is None or one.output is None or two.output is None:
            continue
        same = all(_agree(a, b, first, length) is not False for a, b in zip(one.inputs, two.inputs))
        if same and _agree(one.output, two.output, first, length) is False:
            guilty.append(key)
    inner = [
        key
        for key in guilty
        if not any(other[0].startswith(key[0] + ".") or (not key[0] and other[0]) for other in guilty)
    ]
    if not inner:
        return []
    key = inner[0]
    part = dict(module.named_modules())[key[0]]
    watched = []
    for run_it in (full, step):
        ops = WatchedOps(length, module)
        run = Run(module)
        run.inner = (key, ops)
        with ops:
            run_it(run)
        watched.append(ops)
    found = _first_apart(watched[0], watched[1], first, length)
    own = inside = None
    if found is not None:
        own = own_site(part, found) or (found[0] if found else None)
        inside = found[0] if found else None
    return [
        {
            "module": key[0],
            "type": type(part).__name__,
            "layer": layer_of(key[0]),
            "at": frames.described(own),
            "inside": frames.described(inside),
        }
    ]


def _agree(one: torch.Tensor, two: torch.Tensor, first: int, length: int) -> Optional[bool]:
    """Whether the row of one token in a full pass is that of a step; None where they cannot be compared."""
    if one.dim() != two.dim() or not one.is_floating_point():
        return None
    places = [d for d in range(one.dim()) if one.shape[d] == length and two.shape[d] == 1]
    others = all(one.shape[d] == two.shape[d] for d in range(one.dim()) if d not in places)
    if len(places) != 1 or not others:
        return None
    row = one.select(places[0], first)
    return difference(row, two.select(places[0], 0)) < 1e-2


def _first_apart(whole: WatchedOps, single: WatchedOps, first: int, length: int) -> Optional[List[frames.Site]]:
    """Calls are matched by their lines: the full pass may take other branches."""
    left: Dict[Tuple[str, Any], List[Any]] = {}
    for call in whole.calls:
        left.setdefault((call.name, call.sites[0] if call.sites else None), []).append(call)
    for call in single.calls:
        same = left.get((call.name, call.sites[0] if call.sites else None))
        if not same:
            continue
        match = same.pop(0)
        for a, b in zip(match.outputs, call.outputs):
            if _agree(a, b, first, length) is False:
                return list(call.sites)
    return None
