"""The plain cases of the command line, read without typer, which costs as much as all of `status`.

`--version`, `--help`, and `check`, `fix`, `status` and `undo` with options written out in full, each value as plain as
it can be. Whatever else a person types, a mistake above all, is typer's: `read` gives None for it.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin

from attn_doctor.cli import started
from attn_doctor.cli.commands import ABOUT, COMMANDS, VERSION_HELP
from attn_doctor.cli.declare import Option, bare_values, flags_of, with_values
from attn_doctor.version import __version__

#: Commands that hooks and loops run, and what they run next.
READ_HERE = ("check", "fix", "status", "undo")


class _Unread(Exception):
    """Not one of the plain cases."""


def read(arguments: Sequence[str]) -> Callable[[], None] | None:
    """A function that runs the command in these arguments; None when typer has to parse them."""
    match arguments:
        case ["--version"]:
            return lambda: print(f"attn-doctor {__version__}")  # noqa: T201
        case ["--help" | "-h"]:
            return lambda: print(help_text())  # noqa: T201
        case [name, *rest] if name in READ_HERE:
            command = COMMANDS[name]
            function = getattr(importlib.import_module(f"attn_doctor.cli.{command.module}"), str(command.function))
            try:
                values, given = parsed(function, rest)
            except _Unread:
                return None

            def run() -> None:
                started.given = given
                function(**values)

            return run
    return None


def parsed(function: Callable[..., Any], words: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The parameters of a command, and the flags of those that were given, in the order of the declarations.

    Raises _Unread unless the words are plain options with plain values.
    """
    declared = {name: (kind, option, default) for name, kind, option, default in _declared(function)}
    flags = {
        flag: (name, value)
        for name, (kind, option, _) in declared.items()
        if option is not None
        for flag, value in _flags(name, kind, option)
    }
    found: dict[str, Any] = {}
    left = iter(with_values(words, bare_values({name: option for name, (_, option, _) in declared.items()})))
    for word in left:
        flag, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        if flag not in flags:
            raise _Unread
        name, value = flags[flag]
        if value is not None:
            if equals:
                raise _Unread
            found[name] = value
            continue
        kind, option, _ = declared[name]
        read_value = _value(text if equals else next(left, ""), kind, option)
        if get_origin(_certain(kind)) is list:
            found[name] = [*found.get(name, []), read_value]
        elif name in found:
            raise _Unread
        else:
            found[name] = read_value
    values = {name: found.get(name, default) for name, (_, _, default) in declared.items()}
    return values, {name: flags_of(name, option)[0] for name, (_, option, _) in declared.items() if name in found}


def _declared(function: Callable[..., Any]) -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, type, declaration and default of each parameter; the declaration is None for a parameter without flag."""
    # As inspect.signature does, but without importing inspect, which takes a tenth of the time of `status`.
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    defaults = dict(zip(reversed(names[: code.co_argcount]), reversed(function.__defaults__ or ()), strict=False))
    defaults |= function.__kwdefaults__ or {}
    for name in names:
        annotation = function.__annotations__.get(name)
        if isinstance(annotation, str):
            annotation = eval(annotation, function.__globals__)  # noqa: S307
        if get_origin(annotation) is not Annotated or name not in defaults:
            raise _Unread
        kind, note = get_args(annotation)
        yield name, kind, note if isinstance(note, Option) else None, defaults[name]


def _flags(name: str, kind: Any, option: Option) -> Iterator[tuple[str, bool | None]]:
    """Each flag with its value; None when a value follows."""
    for flag in flags_of(name, option):
        yield flag, True if kind is bool else None
    for flag in option.flags:
        if "/" in flag:
            yield flag.partition("/")[2], False


def _certain(kind: Any) -> Any:
    """`X` of `X | None`."""
    kinds = [one for one in get_args(kind) if one is not NoneType]
    return kinds[0] if NoneType in get_args(kind) else kind


def _value(text: str, kind: Any, option: Option) -> Any:
    """The value that a text means; raises _Unread unless that is beyond doubt."""
    kind = _certain(kind)
    if get_origin(kind) is list:
        kind = get_args(kind)[0]
    if not text or text.startswith("-") or (option.choices is not None and text not in option.choices()):
        raise _Unread
    if kind is str:
        return text
    if kind is Path:
        if option.readable and os.path.lexists(text) and not os.access(text, os.R_OK):
            raise _Unread
        return Path(text)
    if kind in (int, float) and re.fullmatch(r"[0-9]{1,15}" if kind is int else r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        number = kind(text)
        if (option.min is None or number >= option.min) and (option.max is None or number <= option.max):
            return number
    if isinstance(kind, type) and issubclass(kind, Enum) and text in {one.value for one in kind}:
        return kind(text)
    raise _Unread


def help_text() -> str:
    """The output of `attn-doctor --help`."""
    import textwrap

    width = max(min(_columns(), 80) - 2, 50)
    name = "python -m attn_doctor" if started.as_module else Path(sys.argv[0]).name
    options = [("--version", VERSION_HELP), ("-h, --help", "Show this message and exit.")]
    # Groups of commands come last.
    ordered = sorted(COMMANDS.items(), key=lambda one: one[1].function is None)
    return "\n".join(
        [
            f"Usage: {name} [OPTIONS] COMMAND [ARGS]...",
            "",
            textwrap.fill(ABOUT, width, initial_indent="  ", subsequent_indent="  "),
            "",
            "Options:",
            *_table(options, width),
            "",
            "Commands:",
            *_table([(name, command.summary) for name, command in ordered], width),
        ]
    )


def _columns() -> int:
    """As shutil.get_terminal_size, without the other imports of shutil."""
    told = os.environ.get("COLUMNS", "")
    if told.isascii() and told.isdigit() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


def _table(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    import textwrap

    first = max(len(row[0]) for row in rows) + 4
    for name, words in rows:
        yield textwrap.fill(words, width, initial_indent=f"  {name}".ljust(first), subsequent_indent=" " * first)
