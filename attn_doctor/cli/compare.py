"""`attn-doctor compare OLD NEW`: what has changed since it worked, or between two nodes that should be equal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attn_doctor.cli.guard import guarded
from attn_doctor.cli.options import Lang, OutputFile, written_as
from attn_doctor.cli.shared import put
from attn_doctor.machine.files import check_output
from attn_doctor.report import picker
from attn_doctor.report.comparison import Compared
from attn_doctor.report.renderer import COMPARISON
from attn_doctor.workflows.compare import CompareRequest
from attn_doctor.workflows.compare import compare as run_compare


@guarded
def compare(
    old: Annotated[Path, typer.Argument(metavar="OLD.json", help="A report of `check --json`, or of --output DIR.")],
    new: Annotated[Path, typer.Argument(metavar="NEW.json", help="A later one, or another node's.")],
    format_: Annotated[str | None, written_as(COMPARISON)] = None,
    json_: Annotated[bool, typer.Option("--json", help="As JSON (attn-doctor/compare/v1).")] = False,
    lang: Lang = None,
    output: OutputFile = None,
) -> int:
    """Say in what two reports differ: critical facts apart from benign ones, findings gone and new.

    Exit status: 0 the same or benign, 1 critical drift or a new error, 2 bad files, 3 a critical fact could not be
    looked at on one side.
    """
    picked = picker.pick(COMPARISON, format_, as_json=json_, output=output)
    if output is not None:
        check_output(output)
    result = run_compare(CompareRequest(old=old, new=new))
    put(Compared(result.found, result.before, result.after), picked, output=output)
    return result.exit_status
