"""Options of `check` that other commands pass on to every node: read here first, by the parser that reads them there.

What only a node can tell (which files it has, which recipes) is left to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer
import typer.main

from attn_doctor.cli import door
from attn_doctor.cli.check import check
from attn_doctor.cli.with_typer import declared
from attn_doctor.errors import BadInput


def readable(args: Sequence[str], *, flag: str = "--") -> tuple[str, ...]:
    """The arguments with every path in them absolute: a node may start in another folder.

    Raises BadInput for what `check` would refuse, and for a command or a help text in its place.
    """
    about = f"{flag} {' '.join(args)}"[:400]
    hint = "`attn-doctor check --help` lists its options."
    asked_help = next((word for word in args if word in ("--help", "-h")), None)
    if asked_help is not None:
        raise BadInput("a help text is no report", about=about, hint=hint)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command("check")(declared(check))
    try:
        read = typer.main.get_command(app).make_context("check", list(args))
    except Exception as error:
        # click's own or the one inside typer, as its release has it; both tell it by this method.
        told = getattr(error, "format_message", None)
        if told is None:
            raise
        raise BadInput(f"check cannot read its options: {told()}", about=about, hint=hint) from None
    if read.params.get("command"):
        raise BadInput(f"check takes options here, and {read.params['command'][0]!r} is none", about=about, hint=hint)
    if read.params.get("explain_sdpa") is not None:
        raise BadInput("an explained call is no report", about=about, hint="Leave --explain-sdpa out.")
    return entered(args, read.command.params, read.params)


def entered(args: Sequence[str], parameters: Sequence[Any], values: Mapping[str, Any]) -> tuple[str, ...]:
    """The words of a command line, each path in them absolute; `values` are what they were read as."""
    paths = {
        option: str(parameter.name)
        for parameter in parameters
        for option in parameter.opts
        if door.holds_paths(str(parameter.name), values.get(parameter.name))
    }
    words: list[str] = []
    for word in args:
        option, equals, value = word.partition("=")
        if words and words[-1] in paths:
            words.append(door.entered_text(paths[words[-1]], word))
        elif equals and option in paths:
            words.append(f"{option}={door.entered_text(paths[option], value)}")
        else:
            words.append(word)
    return tuple(words)
