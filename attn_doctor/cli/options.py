"""Options that several commands have, each spelled once. What means something else in a command is spelled there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.model.findings import Severity
from attn_doctor.report.render import Format

Assume = Annotated[
    list[str] | None,
    typer.Option("--assume", metavar="FACT=VALUE", help="Judge as if this fact were so. Repeatable."),
]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="NAME", help="Judge only this recipe or library. Repeatable.")
]
Skip = Annotated[
    list[str] | None, typer.Option("--skip", metavar="NAME", help="Leave this recipe or library out. Repeatable.")
]
Recipes = Annotated[
    list[Path] | None,
    typer.Option("--recipes", metavar="DIR", help="Another folder of recipes to judge by as well. Repeatable."),
]
FailOn = Annotated[Severity, typer.Option("--fail-on", help="Exit with 1 when something at least this bad is found.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 3 when a question stays open.")]
Timeout = Annotated[
    float,
    typer.Option("--timeout", min=1.0, max=86400.0, metavar="SECONDS", help="Limit for each import and each sample."),
]
HowWritten = Annotated[Format, typer.Option("--format", help="How the report is written.")]
Json = Annotated[bool, typer.Option("--json", help="The same as --format json.")]
OutputFile = Annotated[
    Path | None, typer.Option("--output", metavar="FILE", help="Write the report there instead of to standard output.")
]
LockWait = Annotated[
    float, typer.Option("--wait", min=0.0, metavar="SECONDS", help="Wait for another run that holds the lock.")
]
