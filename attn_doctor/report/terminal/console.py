"""The console that reports are written with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, NoReturn, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from attn_doctor.machine.printable import Ours, harmless

#: Off a terminal there is no width to keep to, and 80 columns tear tables apart.
_PLAIN_WIDTH = 110


class ReportConsole(Console):
    """Plain when output is not a terminal; rich handles NO_COLOR. No markup, no emoji; only the console's own colours
    reach the terminal as control characters."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(file=cast("IO[str]", Ours(stream)), highlight=False, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = max(self.width, _PLAIN_WIDTH)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich renders it, every text made harmless."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)

    def on_broken_pipe(self) -> NoReturn:
        """Leaves it to the caller, which has the exit status; rich would end the process with 1."""
        raise BrokenPipeError
