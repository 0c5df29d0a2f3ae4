"""Options shared by several commands, each declared once. An option with another meaning in a command is declared
there.
"""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

from attn_doctor.cli.declare import Option
from attn_doctor.errors import BadInput
from attn_doctor.model.findings import Severity
from attn_doctor.report import language, picker
from attn_doctor.report.renderer import Kind

Assume = Annotated[
    list[str] | None,
    Option("--assume", metavar="FACT=VALUE", help="Judge as if this fact were so. Repeatable."),
]
Only = Annotated[
    list[str] | None, Option("--only", metavar="NAME", help="Judge only this recipe or library. Repeatable.")
]
Skip = Annotated[
    list[str] | None, Option("--skip", metavar="NAME", help="Leave this recipe or library out. Repeatable.")
]
Recipes = Annotated[
    list[Path] | None,
    Option("--recipes", metavar="DIR", help="Another folder of recipes to judge by as well. Repeatable."),
]
FailOn = Annotated[Severity, Option("--fail-on", help="Exit with 1 when something at least this bad is found.")]
Strict = Annotated[bool, Option("--strict", help="Exit with 3 when a question stays open.")]
Timeout = Annotated[
    float,
    Option("--timeout", min=1.0, max=86400.0, metavar="SECONDS", help="Limit for each import and each sample."),
]
Json = Annotated[bool, Option("--json", help="The same as --format json.")]
OutputFile = Annotated[
    Path | None, Option("--output", metavar="FILE", help="Write the report there instead of to standard output.")
]
Lang = Annotated[
    str | None,
    Option(
        "--lang",
        help="Language of what people read. Default: that of the locale. Formats for programs stay English.",
        choices=lambda: language.LANGUAGES,
    ),
]
LockWait = Annotated[
    float, Option("--wait", min=0.0, metavar="SECONDS", help="Wait for another run that holds the lock.")
]


def written_as(kind: Kind[Any]) -> Option:
    """--format of a command with such a result."""
    return Option(
        "--format",
        help=f"How it is written. Default: as the name of --output ends, else {picker.DEFAULT}; github in its Actions.",
        choices=lambda: picker.names(kind),
    )


def span(text: str, *, flag: str) -> timedelta:
    """90s, 30m, 6h, 7d; a plain number is seconds.

    Raises BadInput.
    """
    match = re.fullmatch(r"(\d{1,6})\s*([smhd]?)", text.strip())
    if match is None:
        raise BadInput("that is no span of time", about=f"{flag} {text}", hint="For example 90s, 30m, 6h, 7d.")
    return timedelta(seconds=int(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]])
