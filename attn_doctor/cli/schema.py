"""`attn-doctor schema`: the JSON Schema of reports."""

from __future__ import annotations

import sys

from attn_doctor.cli.guard import guarded
from attn_doctor.formats import report_v1
from attn_doctor.model.exit_status import Status


@guarded
def schema() -> int:
    """Print the JSON Schema of `check --json` (attn-doctor/report/v1)."""
    sys.stdout.write(report_v1.json_schema())
    return Status.HEALTHY
