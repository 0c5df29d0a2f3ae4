"""The units into which a log is cut."""

from __future__ import annotations

from enum import Enum

from attn_doctor.quick_dataclasses import dataclass, field


class UnitKind(str, Enum):
    """The kind of text; recipes use these names."""

    TRACEBACK = "traceback"
    MESSAGE = "message"
    COMPILER = "compiler"
    WARNING = "warning"
    LINE = "line"


@dataclass(frozen=True, slots=True)
class Line:
    """One line without the additions of launchers, loggers and terminals."""

    number: int
    """1-based, in the original log."""
    text: str
    origin: str = ""
    """`rank 3` or `pid 4711`, from a prefix."""
    level: str = ""
    """Level of the logging record that begins here: `W`, `E`, …"""
    record: bool = False
    """It starts with a time or a level: a new record begins."""
    writer: str = ""
    """The distribution whose records have the form of that prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One message of a log with all its lines."""

    kind: UnitKind
    lines: tuple[Line, ...]
    origin: str = ""
    exception: str = ""
    """Class of the exception, as the log spells it."""
    depth: int = 0
    """Number of exceptions between it and the first of its chain: 0 is the innermost."""
    frames: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    """(file, line) from the outermost call to the innermost."""

    message_at: int = 0
    """Index of the line where the message begins, after the frames."""

    @property
    def text(self) -> str:
        """The text in which patterns are searched: with indentation relative to its first line, since pip indents
        quoted output.
        """
        first = self.lines[0].text
        indent = len(first) - len(first.lstrip())
        if not indent:
            return "\n".join(line.text for line in self.lines)
        return "\n".join(line.text[min(indent, len(line.text) - len(line.text.lstrip())) :] for line in self.lines)

    @property
    def message(self) -> str:
        """The message without the frames before it."""
        return "\n".join(line.text for line in self.lines[self.message_at :])

    @property
    def message_line(self) -> int:
        """Line of the log where the message begins."""
        return self.lines[min(self.message_at, len(self.lines) - 1)].number

    @property
    def first(self) -> int:
        """Line of the log where it begins."""
        return self.lines[0].number

    @property
    def last(self) -> int:
        """Line of the log where it ends."""
        return self.lines[-1].number
