"""Compares two reports: critical and benign differences, findings gone and new."""

from __future__ import annotations

from pathlib import Path

from attn_doctor.diagnose import report_diff
from attn_doctor.formats import report_v1
from attn_doctor.model.exit_status import Status
from attn_doctor.model.report import Report
from attn_doctor.quick_dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """Two report files of `check --json`."""

    old: Path
    new: Path
    """The later report, or another node's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareResult:
    """The differences."""

    before: Report
    after: Report
    found: report_diff.Comparison

    @property
    def exit_status(self) -> int:
        """1 for critical drift or a new error, 3 when a critical fact is unknown on one side."""
        if self.found.drifted:
            return int(Status.FOUND)
        return int(Status.COULD_NOT_EXAMINE if self.found.open else Status.HEALTHY)


def compare(request: CompareRequest) -> CompareResult:
    """Compares the two reports. Raises BadInput for a file that is not a report."""
    before, after = report_v1.read(request.old), report_v1.read(request.new)
    found = report_diff.compare(before, after, about=(str(request.old), str(request.new)))
    return CompareResult(before=before, after=after, found=found)
