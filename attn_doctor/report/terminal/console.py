"""The console that reports are written with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO, Any, NoReturn, cast

from rich.console import Console, ConsoleOptions, OverflowMethod, RenderableType
from rich.segment import Segment
from rich.text import Text

from attn_doctor.machine.printable import Ours, harmless
from attn_doctor.report.words.cells import cells, spans

#: Off a terminal, where COLUMNS says nothing: 80 columns tear tables apart.
_PLAIN_WIDTH = 100


class ReportConsole(Console):
    """Plain when output is not a terminal; rich handles NO_COLOR. No markup, no emoji; only the console's own colours
    reach the terminal as control characters."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(file=cast("IO[str]", Ours(stream)), highlight=False, markup=False, emoji=False)
        if not self.is_terminal:
            given = os.environ.get("COLUMNS", "")
            self.width = max(int(given), 40) if given.isdigit() and int(given) else _PLAIN_WIDTH

    def print(
        self, *objects: Any, crop: bool = False, overflow: OverflowMethod | None = "ignore", **options: Any
    ) -> None:
        """As rich prints it, but no word is broken or cut, however long: a path is there to be copied."""
        whole = options.get("no_wrap") or options.get("soft_wrap")
        if not whole and len(objects) == 1 and isinstance(objects[0], str | Text):
            objects = (Text("\n").join(self.broken(objects[0], self.width)),)
        super().print(*objects, crop=crop, overflow=overflow, **options)

    def broken(self, text: str | Text, width: int) -> list[Text]:
        """The text in lines of that width, broken between words alone."""
        found = text.copy() if isinstance(text, Text) else Text(text)
        if cells(found.plain) > len(found.plain):
            return [line for part in found.split("\n", allow_blank=True) for line in _broken(part, width)]
        # As an argument of `wrap` and of `print`, "ignore" means that nothing is broken at all.
        found.overflow = "ignore"
        lines = list(found.wrap(self, width))
        for line in lines:
            line.rstrip()
        return lines

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich renders it, every text made harmless."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)

    def whole(self, text: Text) -> None:
        """Writes it in one line, whatever its length: paths and commands are there to be copied.

        No value can begin a line that reads like one of ours.
        """
        self.print(Text(" ").join(text.split("\n")), no_wrap=True, overflow="ignore", crop=False)

    def on_broken_pipe(self) -> NoReturn:
        """Leaves it to the caller, which has the exit status; rich would end the process with 1."""
        raise BrokenPipeError


def _broken(text: Text, width: int) -> list[Text]:
    """A line of text with Chinese in it, which rich breaks at blanks alone."""
    ends = [end for _, end in spans(text.plain, width)]
    lines = list(text.divide(ends[:-1]))
    for line in lines:
        line.rstrip()
    return lines
