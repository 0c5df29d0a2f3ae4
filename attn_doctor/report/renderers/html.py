"""`html`: one page; no script, nothing loaded from elsewhere."""

from __future__ import annotations

from html import escape
from typing import IO, TYPE_CHECKING

from attn_doctor.report.renderer import FLEET, Manner, Media, Page, Renderer
from attn_doctor.version import __version__

if TYPE_CHECKING:
    from attn_doctor.model.fleet import FleetVerdict

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "h1{font-size:1.3rem}h2{font-size:1rem;margin:1.5rem 0 .3rem}td{padding:.1rem 1rem .1rem 0;vertical-align:top}"
    "td:first-child{font-family:monospace}.bad{color:#b00020}.unsure{color:#8a6100}.note{color:#555}.fit{color:#176b2c}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}.bad{color:#ff7a7a}.unsure{color:#e0b050}"
    ".note{color:#aaa}.fit{color:#7fd18f}}"
)


def _fleet(verdict: FleetVerdict, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.fleet.nodeset import fold
    from attn_doctor.report.words.fleet import cohort_lines, headline, plain, sections

    tone = {0: "fit", 1: "bad", 3: "unsure"}[verdict.exit_status]
    stream.write(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>attn-doctor fleet</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n"
        f'<h1 class="{tone}">{escape(headline(verdict))}</h1>\n'
        f"<p>attn-doctor {escape(__version__)}, {escape(verdict.created)}, {verdict.reports:,} reports</p>\n<ul>\n"
    )
    for line in cohort_lines(verdict, fold):
        stream.write(f"<li>{escape(line)}</li>\n")
    stream.write("</ul>\n")
    for section in sections(verdict, fold):
        stream.write(f'<h2 class="{section.tone}">{escape(plain(("", section.title))[1])}</h2>\n<table>\n')
        for told in section.lines:
            nodes, words = plain(told)
            stream.write(f"<tr><td>{escape(nodes)}</td><td>{escape(words)}</td></tr>\n")
        stream.write("</table>\n")
    stream.write("</body></html>\n")


RENDERER = Renderer("html", suffixes=(".html", ".htm"), media=Media.PERSON, pages=(Page(FLEET, _fleet),))
