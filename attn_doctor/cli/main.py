"""The command `attn-doctor`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from attn_doctor import __version__
from attn_doctor.cli import check, explain, recipes, schema, started, trace

app = typer.Typer(
    name="attn-doctor",
    help="Examines the attention stack of a node: what is wrong, where, why, and what cures it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attn-doctor {__version__}")
        raise typer.Exit


@app.callback()
def _everything(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


app.command("check")(check.check)
app.command("explain")(explain.explain)
app.command("trace")(trace.trace)
app.command("schema")(schema.schema)
app.add_typer(recipes.app, name="recipes")


def main(*, as_module: bool = False) -> int:
    """Runs the command line; the exit status is documented in docs/exit-status.md."""
    started.as_module = as_module
    try:
        app()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
