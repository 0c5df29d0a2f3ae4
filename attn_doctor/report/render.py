"""A report in the form that people or programs want it in."""

from __future__ import annotations

from enum import Enum
from typing import IO

from attn_doctor.formats import report_v1
from attn_doctor.model.report import Report


class Format(str, Enum):
    """How the report is written."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def render(report: Report, form: Format, stream: IO[str], *, verbose: bool, masked: bool) -> None:
    """Writes it to the stream. `masked`: markdown without names of users and hosts."""
    # Each writer is imported only when it is wanted: rich alone costs as much as reading all metadata.
    if form is Format.JSON:
        stream.write(report_v1.dumps(report))
    elif form is Format.MARKDOWN:
        from attn_doctor.report import markdown

        markdown.write(report, stream, verbose=verbose, masked=masked)
    elif report.command == "explain":
        from attn_doctor.report import explain_text

        explain_text.write(report, stream, verbose=verbose)
    else:
        from attn_doctor.report import text

        text.write(report, stream, verbose=verbose)
