"""Compares what a compiled function takes with what it was handed, where pybind11 refuses the call.

Its message lists the kinds of each place and, behind "Invoked with:", the values, whose tensors fill many lines. As
many values as places: one of them is of another kind. Another number: caller and compiled file are of two releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from attn_doctor.diagnose.log.unit import Line
from attn_doctor.quick_dataclasses import dataclass, field
from attn_doctor.quick_patterns import when_used

_REFUSED = when_used(r"incompatible (?:function|constructor) arguments\.")
_SIGNATURE = when_used(r"\s*\d{1,2}\. (?P<rest>\(?.*)$")
_NAMED = when_used(r"(?:kwargs: )?(?P<name>[A-Za-z_]\w{0,60})=(?P<value>.*)$", re.DOTALL)
_INVOKED = when_used(r"\s*Invoked with: ?(?P<rest>.*)$")
#: Lines of one message; tensors of many sizes fill some hundred.
_MOST_LINES = 1500
#: More values of a wrong kind: the places are those of another release, and their number is so by chance.
_MOST_WRONG = 2
_OPEN, _CLOSE = "([{", ")]}"
#: (what the type of a place may be spelled as, kinds of values that it takes). pybind11 makes a bool of anything and a
#: number of a tensor with one element, so only what it never takes is told.
_TAKES = (
    (when_used(r"(?:at::|torch\.|c10::)?Tensor"), {"tensor"}),
    (when_used(r"(?:typing\.)?(?:int|SupportsInt|SupportsIndex)"), {"int", "bool", "tensor"}),
    (when_used(r"(?:typing\.)?(?:float|SupportsFloat)"), {"int", "bool", "float", "tensor"}),
    (when_used(r"str"), {"str"}),
    (when_used(r"(?:typing\.|collections\.abc\.)?(?:[Ll]ist|Sequence|[Tt]uple)\[.*\]"), {"list"}),
)
_OPTIONAL = when_used(r"(?:typing\.|std::|c10::)?[Oo]ptional[\[<](?P<of>.+)[\]>]$|(?P<left>.+?) \| None$")
_KINDS = (
    ("tensor", when_used(r"tensor\(|(?:Parameter|Buffer) containing:|FakeTensor\(")),
    ("None", when_used(r"None$")),
    ("bool", when_used(r"(?:True|False)$")),
    ("int", when_used(r"-?\d{1,20}$")),
    ("float", when_used(r"-?(?:\d[\d_]{0,30}\.?\d{0,30}(?:e[+-]?\d{1,3})?|inf|nan)$")),
    ("str", when_used(r"['\"]")),
    ("list", when_used(r"[\[(]")),
)


@dataclass(slots=True)
class _Call:
    """One refused call, while its lines are read."""

    line: int
    signatures: list[str] = field(default_factory=list)
    values: str | None = None
    depth: int = 0
    lines: int = 0
    whole: bool = False


class CompiledCalls:
    """Reads the calls that compiled functions refuse from the lines of a log."""

    def __init__(self) -> None:
        self._now: dict[str, _Call] = {}
        self._done: list[_Call] = []

    def see(self, line: Line) -> None:
        """Reads one line."""
        if "incompatible " in line.text and _REFUSED.search(line.text):
            self._now[line.origin] = _Call(line.number)
            return
        call = self._now.get(line.origin)
        if call is None:
            return
        call.lines += 1
        if call.values is None and (invoked := _INVOKED.match(line.text)):
            self._value(call, line.origin, invoked["rest"])
        elif call.values is not None:
            self._value(call, line.origin, line.text)
        elif found := _SIGNATURE.match(line.text):
            call.signatures.append(found["rest"])
        elif call.signatures and line.text and "->" not in call.signatures[-1]:
            call.signatures[-1] += f" {line.text.strip()}"
        if call.lines > _MOST_LINES:
            self._now.pop(line.origin, None)

    def _value(self, call: _Call, origin: str, text: str) -> None:
        call.values = f"{call.values or ''} {text.strip()}"
        call.depth += sum(text.count(sign) for sign in _OPEN) - sum(text.count(sign) for sign in _CLOSE)
        if call.depth <= 0 and text and not text.rstrip().endswith((",", " containing:", "Parameter containing:")):
            call.whole = call.depth == 0
            self._now.pop(origin, None)
            self._done.append(call)

    def told(self) -> Iterator[tuple[str, str, int]]:
        """Facts of the calls: name, value, line."""
        for call in self._done:
            values = _parts(call.values or "")
            places = [found for one in call.signatures if (found := _places(one)) is not None]
            if not call.whole or not places or any("..." in value[:4] or value == "…" for value in values):
                continue
            fits = [one for one in places if sum(not place.given for place in one) <= len(values) <= len(one)]
            takes = " / ".join(dict.fromkeys(str(len(one)) for one in places))
            yield "log.call_takes", takes, call.line
            yield "log.call_got", str(len(values)), call.line
            wrong = min((_wrong(one, values) for one in fits), key=len, default=[])
            if len(wrong) > _MOST_WRONG:
                continue
            yield "log.call_misfit", "kind" if fits else "number", call.line
            if wrong:
                yield "log.call_wrong_kind", "; ".join(wrong), call.line


@dataclass(frozen=True, slots=True)
class _Place:
    name: str
    type: str
    given: bool
    """It has a value of its own where none is handed over."""


def _places(signature: str) -> list[_Place] | None:
    """The places of a signature; None where it takes any number, or is cut off."""
    inner, arrow, _ = signature.partition(") -> ")
    if not arrow or not inner.startswith("("):
        return None
    made = []
    for part in _parts(inner[1:]):
        if part in ("*", "/"):  # what stands behind or before it goes by name or place alone
            continue
        if part.startswith("*"):
            return None
        name, _, kind = part.partition(":")
        made.append(_Place(name.strip(), kind.partition(" = ")[0].strip(), " = " in kind))
    return made


def _wrong(places: list[_Place], values: list[str]) -> list[str]:
    """What was handed over and is of a kind that its place never takes."""
    handed = {}
    for place, value in zip(places, values, strict=False):
        named = _NAMED.match(value)
        handed[named["name"] if named else place.name] = named["value"] if named else value
    return [
        f"{place.name} ({place.type}) = {kind}"
        for place in places
        if (kind := _kind(handed.get(place.name, ""))) and not _takes(place.type, kind)
    ]


def _takes(spelled: str, kind: str) -> bool:
    optional = _OPTIONAL.match(spelled)
    if optional:
        return kind == "None" or _takes(optional["of"] or optional["left"], kind)
    return next((kind in kinds for pattern, kinds in _TAKES if pattern.fullmatch(spelled)), True)


def _kind(value: str) -> str | None:
    return next((kind for kind, pattern in _KINDS if pattern.match(value)), None)


def _parts(text: str) -> list[str]:
    """The parts between the commas outside of brackets and quotes; behind `kwargs:` stand values as well."""
    parts, depth, begun, quote = [], 0, 0, ""
    for at, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        elif sign in _OPEN:
            depth += 1
        elif sign in _CLOSE:
            depth -= 1
        elif depth == 0 and (sign == "," or text.startswith("; kwargs:", at)):
            parts.append(text[begun:at])
            begun = at + 1
    parts.append(text[begun:])
    return [part.strip() for part in parts if part.strip()]
