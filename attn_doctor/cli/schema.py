"""`attn-doctor schema`: the JSON Schemas of what commands print for programs."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated

import typer

from attn_doctor.cli.guard import guarded
from attn_doctor.formats import fix_v1, report_v1
from attn_doctor.model.exit_status import Status


class Format(str, Enum):
    """Whose answer the schema is of."""

    REPORT = "report"
    FIX = "fix"
    UNDO = "undo"


@guarded
def schema(
    which: Annotated[Format, typer.Argument(metavar="[report|fix|undo]", help="Of `check`, `fix` or `undo`.")] = (
        Format.REPORT
    ),
) -> int:
    """Print the JSON Schema of what `check --json`, `fix --json` or `undo --json` prints."""
    of_report = which is Format.REPORT
    sys.stdout.write(report_v1.json_schema() if of_report else fix_v1.json_schema(which.value))
    return Status.HEALTHY
