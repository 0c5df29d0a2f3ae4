"""The console that reports are written with."""

from __future__ import annotations

from typing import IO, NoReturn

from rich.console import Console

#: Off a terminal there is no width to keep to, and 80 columns tear tables apart.
_PLAIN_WIDTH = 110


class ReportConsole(Console):
    """Plain off a terminal; NO_COLOR is heeded by rich. What is written stands as it is: no markup, no emoji."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(file=stream, highlight=False, markup=False, emoji=False)
        if not self.is_terminal:
            self.width = max(self.width, _PLAIN_WIDTH)

    def on_broken_pipe(self) -> NoReturn:
        """Leaves it to the caller, who knows the exit status; rich would end the process with 1."""
        raise BrokenPipeError
