"""The dtype path of an attention call as source lines: what each made of q, k, v and the mask, and which expression
promoted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from attn_doctor.model.findings import Finding
from attn_doctor.model.outcomes import BROKEN
from attn_doctor.quick_dataclasses import dataclass, field
from attn_doctor.report.language import say, say_filled
from attn_doctor.report.words.places import expressions, shortened

if TYPE_CHECKING:
    from attn_doctor.model.trace import Arrived, AttentionCall, Place, Promotion, Step, Trace

_SHORT = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64"}
_BITS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}
#: Lines that keep every dtype are shown up to this many; more hide those that matter.
_MOST_KEPT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """An operand after a line of source."""

    dtype: str
    """As torch calls it."""
    promoted: bool = False
    """The line gave it a wider dtype."""
    refused: bool = False
    """The attention call does not take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An expression of a line that promoted, and why."""

    spans: tuple[tuple[int, int], ...]
    words: str
    latent: bool = False
    """It promotes once the promotion before it is cast back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of source on the path."""

    place: Place
    cells: Mapping[str, Cell]
    """By role, for the operands that pass through it."""
    marks: tuple[Mark, ...] = ()
    is_call: bool = False
    """The attention call itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The path of one call."""

    roles: tuple[str, ...]
    lines: tuple[Line, ...] = field(default=())


def listing(call: AttentionCall, trace: Trace, *, whole: bool = False) -> Listing:
    """The lines between the projections and the call, in the order in which they ran.

    Without `whole`, lines that change no dtype are left out where there are more than a few.
    """
    shown = tuple(one for one in call.operands if one.path or one.role in ("q", "k", "v"))
    marks: dict[tuple[str, int], list[Mark]] = {}
    for promotion in promotions_of(call, trace):
        if promotion.place is not None:
            marks.setdefault(_key(promotion.place), []).append(mark_of(promotion))
    lines = [
        Line(place=place, cells=cells, marks=tuple(dict.fromkeys(marks.get(_key(place), ()))))
        for place, cells in _by_place(shown)
    ]
    changing = [one for one in lines if one.marks or any(cell.promoted for cell in one.cells.values())]
    kept = len(lines) - len(changing)
    if not whole and kept > _MOST_KEPT:
        lines = [one for one in lines if one in changing or one is lines[0]]
    if call.place is not None:
        arrived = {one.role: Cell(dtype=one.dtype, refused=one.blamed) for one in shown}
        lines = [one for one in lines if _key(one.place) != _key(call.place) or one.marks]
        lines.append(Line(place=call.place, cells=arrived, is_call=True))
    return Listing(roles=tuple(one.role for one in shown), lines=tuple(lines))


def _by_place(operands: tuple[Arrived, ...]) -> Iterator[tuple[Place, dict[str, Cell]]]:
    found: dict[tuple[str, int], tuple[Place, dict[str, Cell]]] = {}
    # Steps side by side: the first of q, of k, of v, then the second of each, keeps the order in which lines ran.
    for number in range(max((len(one.path) for one in operands), default=0)):
        for one in operands:
            if number < len(one.path) and (place := one.path[number].place) is not None:
                step = one.path[number]
                _, cells = found.setdefault(_key(place), (place, {}))
                before = cells.get(one.role)
                promoted = (before is not None and before.promoted) or widens(step)
                cells[one.role] = Cell(dtype=step.dtype_out, promoted=promoted)
    files = {key[0] for key in found}
    every = list(found.values())
    # Within one function of one file, the order of its lines is the order for a reader.
    one_function = len(files) == 1 and len({place.function for place, _ in every}) == 1
    yield from sorted(every, key=lambda one: one[0].line) if one_function else every


def mark_of(promotion: Promotion) -> Mark:
    """The expression of a promotion, with what it did and where the wider dtype comes from."""
    assert promotion.place is not None
    wide = short(promotion.dtype_out)
    origin = in_short(shortened("; ".join(promotion.born))).removesuffix(f": {wide}") or say_filled(promotion.kind)
    spans = expressions(promotion.place.source, promotion.call)
    named = (
        ""
        if spans
        else say("{call} makes {words} ", call=promotion.call, words=", ".join(promotion.roles) or say("an operand"))
    )
    change = f"{named}{short(promotion.dtype_in)} → {wide}"
    times = say(" ({calls} times)", calls=promotion.calls) if promotion.calls > 1 else ""
    words = (
        say("once that is cast back, {change} again: {origin}", change=change, origin=origin)
        if promotion.latent
        else f"{change}: {origin}"
    )
    return Mark(spans=spans, words=f"{words}{times}", latent=promotion.latent)


def promotions_of(call: AttentionCall, trace: Trace) -> tuple[Promotion, ...]:
    """The promotions that reached the call, and those that would once these are cast back."""
    reached = {one.promotion for one in call.operands if one.promotion is not None}
    broken = call.verdict in BROKEN
    return tuple(one for one in trace.promotions if one.id in reached or (one.latent and broken))


def findings_of(number: int, trace: Trace, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings about the call of that number, by the promotions on its path or by the call itself."""
    own = {f"attention {number}", *(f"promotion {one.id}" for one in promotions_of(trace.calls[number], trace))}
    return tuple(one for one in findings if own & {*one.subjects})


def gets(call: AttentionCall) -> str:
    """`q fp32, k fp32, v fp16`: what reached the call."""
    return ", ".join(f"{one.role} {short(one.dtype)}" for one in call.operands)


def widens(step: Step) -> bool:
    """True when the call gave a wider float dtype than it got."""
    return step.changed and _BITS.get(step.dtype_out, 0) > _BITS.get(step.dtype_in, 0) > 0


def short(dtype: str) -> str:
    """`fp16` for float16."""
    return _SHORT.get(dtype, dtype)


def in_short(words: str) -> str:
    """The same with short names of dtypes in it."""
    for long, name in sorted(_SHORT.items(), key=lambda one: -len(one[0])):
        words = words.replace(long, name)
    return words


def _key(place: Place) -> tuple[str, int]:
    return place.file, place.line
