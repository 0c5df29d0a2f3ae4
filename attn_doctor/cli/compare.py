"""`attn-doctor compare OLD NEW`: what has changed since it worked, or between two nodes that should be equal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli.guard import guarded
from attn_doctor.cli.shared import put
from attn_doctor.diagnose import report_diff
from attn_doctor.formats import report_v1
from attn_doctor.model.exit_status import Status
from attn_doctor.report import picker
from attn_doctor.report.comparison import Compared
from attn_doctor.report.renderer import COMPARISON


@guarded
def compare(
    old: Annotated[Path, typer.Argument(metavar="OLD.json", help="A report of `check --json`, or of --output DIR.")],
    new: Annotated[Path, typer.Argument(metavar="NEW.json", help="A later one, or another node's.")],
    json_: Annotated[bool, typer.Option("--json", help="As JSON (attn-doctor/compare/v1).")] = False,
) -> int:
    """Say in what two reports differ: critical facts apart from benign ones, findings gone and new.

    Exit status: 0 the same or benign, 1 critical drift or a new error, 2 bad files, 3 a critical fact could not be
    looked at on one side.
    """
    before = report_v1.read(old)
    after = report_v1.read(new)
    found = report_diff.compare(before, after, about=(str(old), str(new)))
    put(Compared(found, before, after), picker.pick(COMPARISON, as_json=json_))
    if found.drifted:
        return Status.FOUND
    return Status.COULD_NOT_EXAMINE if found.open else Status.HEALTHY
