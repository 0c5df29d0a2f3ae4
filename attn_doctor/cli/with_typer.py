"""The command line as typer reads it: declarations become typer's own, and every command line can be read."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, get_args, get_origin

import typer
import typer.main

from attn_doctor.cli import door, started
from attn_doctor.cli.commands import ABOUT, COMMANDS, VERSION_HELP
from attn_doctor.cli.declare import Argument, Option, bare_values
from attn_doctor.cli.grouped_help import GroupedCommand
from attn_doctor.errors import BadInput
from attn_doctor.model.exit_status import Status
from attn_doctor.version import __version__


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attn-doctor {__version__}")
        raise typer.Exit


class _Choice(str, Enum):
    """Words that typer lets a person choose from; a command gets the word itself."""


def _everything(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help=VERSION_HELP)] = False,
) -> None:
    pass


def build(arguments: list[str]) -> typer.Typer:
    """The command line for these arguments.

    Only the module of the command that is wanted is imported: all of them cost as much as a whole `check --quick`.
    """
    app = typer.Typer(
        name="attn-doctor",
        help=ABOUT,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_everything)
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    for name, command in COMMANDS.items():
        if wanted in COMMANDS and name != wanted:
            continue
        loaded = importlib.import_module(f"attn_doctor.cli.{command.module}")
        if command.function is None:
            for inner in loaded.app.registered_commands:
                inner.cls = GroupedCommand
            app.add_typer(loaded.app, name=name, short_help=command.summary)
        else:
            function = getattr(loaded, command.function)
            app.command(name, cls=command_class(function), short_help=command.summary)(declared(function))
    return app


def run(arguments: list[str]) -> None:
    """Reads these arguments and runs the command in them. Raises BadInput where they cannot be read, SystemExit."""
    app = build(arguments)
    try:
        ended = app(arguments, standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help text
            error.show()  # type: ignore[attr-defined]
            raise SystemExit(int(Status.USAGE)) from None
        raise unread(error, arguments) from None
    raise SystemExit(ended if isinstance(ended, int) else int(Status.HEALTHY))


def unread(error: Any, words: Sequence[str]) -> BadInput:
    """The parser's refusal of these words in three parts; its own sentence differs from release to release, and is
    click's or that of the copy inside typer.
    """
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    named = next((word for word in words if word in COMMANDS), "")
    path = str(context.command_path) if context is not None else f"attn-doctor {named}".strip()
    hint = f"`{path} --help` lists what it takes."
    said = str(error.message or error.format_message()).removeprefix("Value error, ").rstrip(".")
    if parameter is None or type(error).__name__ == "MissingParameter":
        return BadInput("the command line cannot be read", about=str(error.format_message()).rstrip("."), hint=hint)
    flag = next((one for one in parameter.opts if one.startswith("--")), str(parameter.name))
    return BadInput(
        f"that is no value of {flag}",
        about=f"{_as_typed(parameter.opts, words) or flag}: {said[:1].lower()}{said[1:]}",
        hint=hint,
    )


def _as_typed(flags: Sequence[str], words: Sequence[str]) -> str:
    for number, word in enumerate(words):
        if word in flags:
            return " ".join(words[number : number + 2])
        if word.partition("=")[0] in flags:
            return word
    return ""


def command_class(command: Callable[..., Any]) -> type[GroupedCommand]:
    """The class of typer's command for this function: it knows which values may be left out."""
    declarations = {
        one.name: get_args(one.annotation)[1]
        for one in inspect.signature(command, eval_str=True).parameters.values()
        if get_origin(one.annotation) is Annotated
    }
    return type("Command", (GroupedCommand,), {"bare": bare_values(declarations)})


def declared(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with typer's declarations instead of ours; given options are recorded before it runs."""
    signature = inspect.signature(command, eval_str=True)
    parameters = [one.replace(annotation=_of_typer(one.annotation)) for one in signature.parameters.values()]

    def run(**values: Any) -> Any:
        context = values.pop("context")
        started.given = _given(context)
        return command(**{name: one.value if isinstance(one, _Choice) else one for name, one in values.items()})

    asked = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {one.name: one.annotation for one in (*parameters, asked)}
    keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    run.__signature__ = signature.replace(parameters=[*keyword, asked])  # type: ignore[attr-defined]
    return run


def _of_typer(annotation: Any) -> Any:
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, note = get_args(annotation)
    if isinstance(note, Option) and note.choices is not None:
        kind = _Choice("Choice", {word: word for word in note.choices()}) | None  # type: ignore[call-overload]
    return Annotated[kind, _note(note)]


def _note(note: Any) -> Any:
    if isinstance(note, Option):
        return typer.Option(
            *note.flags, help=note.help, metavar=note.metavar, min=note.min, max=note.max, readable=note.readable
        )
    if isinstance(note, Argument):
        return typer.Argument(help=note.help, metavar=note.metavar)
    return note


def _given(context: typer.Context) -> dict[str, str]:
    return {
        str(parameter.name): parameter.opts[0]
        for parameter in context.command.params
        if getattr(context.get_parameter_source(parameter.name or ""), "name", "") == "COMMANDLINE"
    }


def readable(args: Sequence[str], *, flag: str = "--") -> tuple[str, ...]:
    """Parses options of `check` that are passed on to every node, and makes every path in them absolute.

    A node may start in another folder. What only a node can check (its files, its recipes) is left to it.

    Raises BadInput for options that `check` would refuse, and for a command or a request for help instead.
    """
    about = f"{flag} {' '.join(args)}"[:400]
    hint = "`attn-doctor check --help` lists its options."
    asked_help = next((word for word in args if word in ("--help", "-h")), None)
    if asked_help is not None:
        raise BadInput("a help text is no report", about=about, hint=hint)
    try:
        read = parser_of("check").make_context("check", list(args))
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        refusal = unread(error, args)
        raise BadInput(f"check cannot read its options: {refusal.about}", about=about, hint=hint) from None
    if read.params.get("command"):
        raise BadInput(f"check takes options here, and {read.params['command'][0]!r} is none", about=about, hint=hint)
    if read.params.get("explain_sdpa") is not None:
        raise BadInput("an explained call is no report", about=about, hint="Leave --explain-sdpa out.")
    return entered(args, read.command.params, read.params)


def parser_of(name: str) -> Any:
    """The command of that name as typer parses it, without running it."""
    command = COMMANDS[name]
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    loaded = importlib.import_module(f"attn_doctor.cli.{command.module}")
    function = getattr(loaded, str(command.function))
    app.command(name, cls=command_class(function))(declared(function))
    return typer.main.get_command(app)


def entered(args: Sequence[str], parameters: Sequence[Any], values: Mapping[str, Any]) -> tuple[str, ...]:
    """The words of a command line with absolute paths; `values` are their parsed values."""
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
