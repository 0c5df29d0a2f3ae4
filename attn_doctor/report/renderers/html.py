"""`html`: one page; no script, nothing loaded from elsewhere."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from attn_doctor.report.renderer import CHECK, COMPARISON, EXPLAIN, FLEET, TRACE, Manner, Media, Page, Renderer

if TYPE_CHECKING:
    from attn_doctor.model.fleet import FleetVerdict
    from attn_doctor.model.report import Report
    from attn_doctor.report.comparison import Compared


def _fleet(verdict: FleetVerdict, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.report.pages import fleet

    stream.write(fleet.whole(verdict))


def _report(report: Report, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.report.pages import report as pages

    stream.write(pages.whole(report))


def _comparison(compared: Compared, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.report.pages import comparison

    stream.write(comparison.whole(compared))


RENDERER = Renderer(
    "html",
    suffixes=(".html", ".htm"),
    media=Media.PERSON,
    pages=(
        Page(CHECK, _report),
        Page(TRACE, _report),
        Page(EXPLAIN, _report),
        Page(FLEET, _fleet),
        Page(COMPARISON, _comparison),
    ),
)
