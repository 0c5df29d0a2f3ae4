"""`check --explain-sdpa`: which backend SDPA picks for one call, and why not the others."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from attn_doctor.cli.delivery import CheckFormat
from attn_doctor.cli.shared import refuse_beside
from attn_doctor.errors import BadInput
from attn_doctor.machine.files import check_output, replace_file
from attn_doctor.machine.printable import json_text
from attn_doctor.model.exit_status import Status
from attn_doctor.workflows.explain_sdpa import SdpaRequest, explain_sdpa

#: Parameters of `check` that say something here.
_TAKES = ("explain_sdpa", "python", "gpu", "timeout", "format_", "json_", "output")


def accepts(form: CheckFormat | None) -> None:
    """Raises BadInput for what this would pass over: there is no report, and nothing that gates."""
    hint = "Leave it out: one call is explained, as text or with --json, and nothing else is examined."
    refuse_beside("--explain-sdpa", takes=_TAKES, hint=hint)
    if form not in (None, CheckFormat.TEXT, CheckFormat.JSON):
        raise BadInput("a call is explained as text or as JSON", about=f"--format {form.value}", hint=hint)


def run(request: SdpaRequest, *, as_json: bool, output: Path | None) -> Status:
    """Explains it on standard output, or in the file `output`.

    Raises BadInput for a call that cannot be read, TargetUnusable where torch cannot be asked.
    """
    if output is not None:
        check_output(output)
    answer = explain_sdpa(request)
    told = io.StringIO()
    if as_json:
        told.write(json_text({"call": request.call, **answer}, indent=2) + "\n")
    else:
        from attn_doctor.report import sdpa_text

        sdpa_text.write(request.call, answer, told if output is not None else sys.stdout)
    if output is not None:
        replace_file(output, told.getvalue())
    else:
        sys.stdout.write(told.getvalue())
    return Status.HEALTHY
