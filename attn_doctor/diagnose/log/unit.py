"""What a log is cut into."""

from __future__ import annotations

from enum import Enum

from attn_doctor.quick_dataclasses import dataclass, field


class UnitKind(str, Enum):
    """What sort of text it is; recipes name these."""

    TRACEBACK = "traceback"
    MESSAGE = "message"
    COMPILER = "compiler"
    WARNING = "warning"
    LINE = "line"


@dataclass(frozen=True, slots=True)
class Line:
    """One line without what launchers, loggers and terminals put around it."""

    number: int
    """1-based, in the log as it lies there."""
    text: str
    origin: str = ""
    """`rank 3` or `pid 4711`, when a prefix tells."""
    level: str = ""
    """Level of the logging record that begins here: `W`, `E`, …"""
    record: bool = False
    """A time or a level stands in front: a new record begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One message of a log with everything that belongs to it."""

    kind: UnitKind
    lines: tuple[Line, ...]
    origin: str = ""
    exception: str = ""
    """Class of the exception, as the log spells it."""
    depth: int = 0
    """How many exceptions lie between it and the first of its chain: 0 is the innermost."""
    frames: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    """(file, line) from the outermost call to the innermost."""

    message_at: int = 0
    """Index of the line where the message begins, behind the frames."""

    @property
    def text(self) -> str:
        """What patterns are searched in: indented as against its first line, since pip indents all that it quotes."""
        first = self.lines[0].text
        indent = len(first) - len(first.lstrip())
        if not indent:
            return "\n".join(line.text for line in self.lines)
        return "\n".join(line.text[min(indent, len(line.text) - len(line.text.lstrip())) :] for line in self.lines)

    @property
    def message(self) -> str:
        """Its words, without the frames before them."""
        return "\n".join(line.text for line in self.lines[self.message_at :])

    @property
    def message_line(self) -> int:
        """Line of the log where they begin."""
        return self.lines[min(self.message_at, len(self.lines) - 1)].number

    @property
    def first(self) -> int:
        """Line of the log where it begins."""
        return self.lines[0].number

    @property
    def last(self) -> int:
        """Line of the log where it ends."""
        return self.lines[-1].number
