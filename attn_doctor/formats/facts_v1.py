"""Facts as JSON values, as report/v1 has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attn_doctor.model.facts import Absent, Fact, FactName, Known, Origin, State, Unknown, Value

if TYPE_CHECKING:
    pass


def fact_to_json(fact: Fact) -> dict[str, Any]:
    written: dict[str, Any]
    match fact.state:
        case Known(value):
            written = {"state": "known", "value": list(value) if isinstance(value, tuple) else value}
        case Absent(reason):
            written = {"state": "absent", "reason": reason}
        case Unknown(reason, asked):
            written = {"state": "unknown", "reason": reason, "asked": asked}
    return {**written, "how": fact.how, "origin": fact.origin.value}


def named_fact_to_json(fact: Fact) -> dict[str, Any]:
    return {"fact": str(fact.name), **fact_to_json(fact)}


def check_types(written: Any, kind: type, *names: str | int) -> None:
    """Checks the types of these keys, so that damage is reported on reading. Raises TypeError."""
    for name in names:
        if not isinstance(written[name], kind) or (kind is int and isinstance(written[name], bool)):
            raise TypeError(f"{name} is {str(written[name])[:40]!r}")


def fact_from_json(name: str, written: dict[str, Any]) -> Fact:
    state: State
    match written["state"]:
        case "known":
            state = Known(_value_from_json(written["value"]))
        case "absent":
            state = Absent(written["reason"])
        case "unknown":
            state = Unknown(written["reason"], asked=written["asked"])
        case other:
            raise ValueError(f"no state of a fact: {other!r}")
    return Fact(name=FactName.parse(name), state=state, how=written["how"], origin=Origin(written["origin"]))


def _value_from_json(value: Any) -> Value:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, (str, int, float, bool)):
        return value
    raise ValueError(f"no value of a fact: {value!r}")
