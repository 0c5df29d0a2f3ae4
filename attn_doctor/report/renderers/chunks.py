"""`chunks`: a report in lines so short that no launcher tears them apart, each with the node's name."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from attn_doctor.report.renderer import CHECK, Manner, Media, Page, Renderer

if TYPE_CHECKING:
    from attn_doctor.model.report import Report


def _report(report: Report, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.formats import chunks, report_v1

    node = report.identity.node.name if report.identity else "unknown"
    stream.writelines(f"{frame}\n" for frame in chunks.frames(node, report_v1.line(report)))


RENDERER = Renderer("chunks", media=Media.PROGRAM, collected=True, pages=(Page(CHECK, _report),))
