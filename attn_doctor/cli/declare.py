"""How options are declared: what typer builds the command line from (`with_typer.py`), and what reads the plain cases
without it (`front.py`). Parameters are called as typer calls them."""

from __future__ import annotations

from collections.abc import Callable


class Option:
    """An option. Without `flags` it is called as its parameter."""

    __slots__ = ("choices", "flags", "help", "max", "metavar", "min", "readable")

    def __init__(
        self,
        *flags: str,
        help: str,  # noqa: A002
        metavar: str | None = None,
        min: float | None = None,  # noqa: A002
        max: float | None = None,  # noqa: A002
        readable: bool = True,
        choices: Callable[[], tuple[str, ...]] | None = None,
    ) -> None:
        self.flags = flags
        self.help = help
        self.metavar = metavar
        self.min = min
        self.max = max
        self.readable = readable
        """A file or folder that is there must be readable."""
        self.choices = choices
        """The words that it takes, where they are not those of an Enum; asked for when they are needed."""


class Argument:
    """What stands without a flag."""

    __slots__ = ("help", "metavar")

    def __init__(self, *, help: str, metavar: str | None = None) -> None:  # noqa: A002
        self.help = help
        self.metavar = metavar
