"""How options are declared: what typer builds the command line from (`with_typer.py`), and what reads the plain cases
without it (`front.py`). Parameters are called as typer calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence


class Option:
    """An option. Without `flags` it is called as its parameter."""

    __slots__ = ("bare", "choices", "flags", "help", "max", "metavar", "min", "readable")

    def __init__(
        self,
        *flags: str,
        help: str,  # noqa: A002
        metavar: str | None = None,
        min: float | None = None,  # noqa: A002
        max: float | None = None,  # noqa: A002
        readable: bool = True,
        choices: Callable[[], tuple[str, ...]] | None = None,
        bare: str | None = None,
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
        self.bare = bare
        """The value that it has when none follows it; None where one has to."""


class Argument:
    """What stands without a flag."""

    __slots__ = ("help", "metavar")

    def __init__(self, *, help: str, metavar: str | None = None) -> None:  # noqa: A002
        self.help = help
        self.metavar = metavar


def flags_of(name: str, option: Option) -> tuple[str, ...]:
    """The flags that set an option; `--samples/--no-samples` is the first of two."""
    return tuple(flag.partition("/")[0] for flag in option.flags) or (f"--{name.replace('_', '-')}",)


def bare_values(declarations: Mapping[str, object]) -> dict[str, str]:
    """Each flag whose value may be left out, with the value that it has then. `declarations`: by parameter."""
    return {
        flag: note.bare
        for name, note in declarations.items()
        if isinstance(note, Option) and note.bare is not None
        for flag in flags_of(name, note)
    }


def with_values(words: Sequence[str], bare: Mapping[str, str]) -> list[str]:
    """The words of a command line; each flag of `bare` that no value follows has its value there behind it.

    What begins with a dash is no value, and what stands behind `--` is another program's.
    """
    filled: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return [*filled, *words[place:]]
        filled.append(word)
        following = words[place + 1] if place + 1 < len(words) else "-"
        if word in bare and following.startswith("-"):
            filled.append(bare[word])
    return filled
