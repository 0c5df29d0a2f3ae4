"""The command line: which command is wanted, and no other one is loaded."""

from __future__ import annotations

import importlib
import itertools
import sys
from typing import Annotated

import typer

from attn_doctor.cli import guard, started
from attn_doctor.machine import harmless
from attn_doctor.model.exit_status import ExitStyle, Status, styled
from attn_doctor.version import __version__

#: In the order of the help. `name: module, function`, or None for a group of commands called `app`.
COMMANDS: dict[str, tuple[str, str | None]] = {
    "check": ("check", "check"),
    "status": ("status", "status"),
    "compare": ("compare", "compare"),
    "explain": ("explain", "explain"),
    "trace": ("trace", "trace"),
    "fix": ("fix", "fix"),
    "undo": ("undo", "undo"),
    "fleet": ("fleet", None),
    "recipes": ("recipes", None),
    "schema": ("schema", "schema"),
}


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attn-doctor {__version__}")
        raise typer.Exit


def _everything(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def build(arguments: list[str]) -> typer.Typer:
    """The command line for these arguments.

    Only the module of the command that is wanted is imported: all of them cost as much as a whole `check --quick`.
    """
    app = typer.Typer(
        name="attn-doctor",
        help="Examines the attention stack of a node: what is wrong, where, why, and what cures it.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_everything)
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    for name, (module, function) in COMMANDS.items():
        if wanted in COMMANDS and name != wanted:
            continue
        loaded = importlib.import_module(f"attn_doctor.cli.{module}")
        if function is None:
            app.add_typer(loaded.app, name=name)
        else:
            app.command(name)(getattr(loaded, function))
    return app


def _style(arguments: list[str]) -> ExitStyle:
    """The --exit-style of arguments that could not be parsed."""
    words = " ".join(arguments).replace("--exit-style=", "--exit-style ").split()
    for flag, value in itertools.pairwise(words):
        if flag == "--exit-style" and value in {style.value for style in ExitStyle}:
            return ExitStyle(value)
    return ExitStyle.DEFAULT


def main(*, as_module: bool = False) -> int:
    """Runs the command line; gives the exit status."""
    started.as_module = as_module
    with harmless.guarded_streams():
        return _main()


def _main() -> int:
    try:
        build(sys.argv[1:])()
        sys.stdout.flush()
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        # Refused by the parser, which knows no styles: Nagios would take 2 for critical.
        refused = status == Status.USAGE and not started.in_command
        return styled(status, _style(sys.argv[1:])) if refused else status
    except BrokenPipeError:
        guard.close_stdout()
    except OSError as error:
        return guard.refused(error)
    except Exception:  # before a command's own guard stood: while it was loaded
        return guard.our_bug()
    return 0
