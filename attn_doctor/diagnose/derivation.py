"""Helpers to compute a fact from other facts: its sources, and the state of a source that prevents it."""

from __future__ import annotations

from attn_doctor.diagnose.conditions import capability
from attn_doctor.model.facts import Absent, Fact, FactName, FactSet, Known, Origin, State, Unknown, Value
from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NotComputed:
    """Replaces a value that could not be computed."""

    reason: str


def derived_fact(name: str, state: State, *sources: FactName | str) -> Fact:
    return Fact(
        name=FactName.parse(name),
        state=state,
        how="computed from " + ", ".join(str(source) for source in sources),
        origin=Origin.DERIVED,
        computed_from=tuple(map(str, sources)),
    )


def values_of(facts: FactSet, *names: str) -> tuple[Value, ...] | Absent | Unknown:
    """The values; otherwise the state of a missing one, Unknown before Absent."""
    states = [facts.fact(name).state for name in names]
    for state in states:
        if isinstance(state, Unknown):
            return state
    for state in states:
        if isinstance(state, Absent):
            return state
    return tuple(state.value for state in states if isinstance(state, Known))


def gpu_capabilities(facts: FactSet) -> tuple[tuple[int, int], ...]:
    """Compute capabilities of the GPUs, each once, in the order of the GPUs."""
    values = (facts.value(f"gpu.{index}.compute_capability") for index in facts.subjects("gpu"))
    return tuple(dict.fromkeys(capability(str(value)) for value in values if value is not None))


def as_texts(value: Value) -> tuple[str, ...]:
    return tuple(str(item) for item in (value if isinstance(value, tuple) else (value,)))


def major_of(version: Value) -> int:
    head = str(version).partition(".")[0]
    return int(head) if head.isdigit() else -1
