"""`check --explain-sdpa`: which backend SDPA picks for one call, and why not the others."""

from __future__ import annotations

from pathlib import Path

from attn_doctor.cli.shared import put, refuse_beside
from attn_doctor.machine.files import check_output
from attn_doctor.model.exit_status import Status
from attn_doctor.report import picker
from attn_doctor.report.renderer import SDPA
from attn_doctor.workflows.explain_sdpa import SdpaRequest, explain_sdpa

#: Parameters of `check` that have an effect here.
_TAKES = ("explain_sdpa", "python", "gpu", "timeout", "format_", "json_", "output")


def run(request: SdpaRequest, *, form: str | None, output: Path | None) -> Status:
    """Explains it on standard output, or in the file `output`.

    Raises BadInput for a call that cannot be read, and for options that this would pass over: there is no report, and
    nothing that gates. Raises TargetUnusable where torch cannot be asked.
    """
    hint = "Leave it out: one call is explained, and nothing else is examined."
    refuse_beside("--explain-sdpa", takes=_TAKES, hint=hint)
    picked = picker.pick(SDPA, form, output=output)
    if output is not None:
        check_output(output)
    put((request.call, explain_sdpa(request)), picked, output=output)
    return Status.HEALTHY
