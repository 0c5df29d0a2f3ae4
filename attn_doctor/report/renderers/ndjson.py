"""`ndjson`: a report on one line, for files in which each line is one."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from attn_doctor.report.renderer import CHECK, Manner, Media, Page, Renderer

if TYPE_CHECKING:
    from attn_doctor.model.report import Report


def _report(report: Report, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.formats import report_v1

    stream.write(report_v1.line(report))


RENDERER = Renderer(
    "ndjson", suffixes=(".ndjson", ".jsonl"), media=Media.PROGRAM, collected=True, pages=(Page(CHECK, _report),)
)
