"""Collects the facts that a probe finds."""

from __future__ import annotations

from enum import Enum
from typing import Any

from attn_doctor.model.facts import Absent, Fact, FactName, Known, State, Unknown, Value


class FactNotes:
    """The facts so far; a later fact of the same name replaces an earlier one."""

    def __init__(self) -> None:
        self._facts: dict[FactName, Fact] = {}

    def state(self, name: str, state: State, how: str) -> None:
        """Records a state."""
        parsed = FactName.parse(name)
        self._facts[parsed] = Fact(name=parsed, state=state, how=how)

    def known(self, name: str, value: Value, how: str) -> None:
        """Records that it is there, with its value. A word of an enumeration becomes plain text: conditions of recipes
        compare values of one type alone."""
        self.state(name, Known(_plain(value)), how)

    def absent(self, name: str, how: str, reason: str = "") -> None:
        """Records that it is not there."""
        self.state(name, Absent(reason), how)

    def unknown(self, name: str, how: str, reason: str, *, asked: bool = True) -> None:
        """Records that it could not be examined, or was not requested (`asked` is False)."""
        self.state(name, Unknown(reason, asked=asked), how)

    def known_or_absent(self, name: str, value: Value | None, how: str, reason: str = "") -> None:
        """Records the value; None and the empty tuple mean absent."""
        if value is None or value == ():
            self.absent(name, how, reason)
        else:
            self.known(name, value, how)

    def facts(self) -> tuple[Fact, ...]:
        """Every recorded fact, in order."""
        return tuple(self._facts.values())


def _plain(value: Any) -> Value:
    plain: Value = value.value if isinstance(value, Enum) else value
    return plain
