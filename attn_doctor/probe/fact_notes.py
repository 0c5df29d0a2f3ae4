"""How a probe notes down what it saw."""

from __future__ import annotations

from attn_doctor.model.facts import Absent, Fact, FactName, Known, State, Unknown, Value


class FactNotes:
    """Facts under way; a name noted twice keeps the later one."""

    def __init__(self) -> None:
        self._facts: dict[FactName, Fact] = {}

    def state(self, name: str, state: State, how: str) -> None:
        """FactNotes a state as it is."""
        parsed = FactName.parse(name)
        self._facts[parsed] = Fact(name=parsed, state=state, how=how)

    def known(self, name: str, value: Value, how: str) -> None:
        """It is there."""
        self.state(name, Known(value), how)

    def absent(self, name: str, how: str, reason: str = "") -> None:
        """It was looked at and is not there."""
        self.state(name, Absent(reason), how)

    def unknown(self, name: str, how: str, reason: str, *, asked: bool = True) -> None:
        """It could not be looked at, or was not asked for."""
        self.state(name, Unknown(reason, asked=asked), how)

    def known_or_absent(self, name: str, value: Value | None, how: str, reason: str = "") -> None:
        """None and the empty tuple mean that it is not there."""
        if value is None or value == ():
            self.absent(name, how, reason)
        else:
            self.known(name, value, how)

    def facts(self) -> tuple[Fact, ...]:
        """Everything noted, in order."""
        return tuple(self._facts.values())
