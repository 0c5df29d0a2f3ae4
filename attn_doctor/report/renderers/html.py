"""`html`: one page; no script, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import IO, TYPE_CHECKING

from attn_doctor.machine.printable import harmless
from attn_doctor.report.renderer import CHECK, COMPARISON, EXPLAIN, FLEET, TRACE, Manner, Media, Page, Renderer
from attn_doctor.version import __version__

if TYPE_CHECKING:
    from attn_doctor.model.fleet import FleetVerdict
    from attn_doctor.model.report import Report
    from attn_doctor.report.comparison import Compared

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "h1{font-size:1.3rem}h2{font-size:1rem;margin:1.5rem 0 .3rem}td{padding:.1rem 1rem .1rem 0;vertical-align:top}"
    "table{table-layout:fixed;width:100%}td{overflow-wrap:anywhere}td:first-child{font-family:monospace;width:38%}"
    "textarea{width:100%;height:4rem;font-family:monospace}summary{cursor:pointer}"
    ".bad{color:#b00020}.unsure{color:#8a6100}.note{color:#555}.fit{color:#176b2c}"
    "@media(prefers-color-scheme:dark){body,textarea{background:#181818;color:#ddd}.bad{color:#ff7a7a}"
    ".unsure{color:#e0b050}.note{color:#aaa}.fit{color:#7fd18f}a{color:#8ab4f8}}"
)
#: Most nodes that have a place of their own on the page, and most that are linked in one row.
_MOST_PAGES, _MOST_LINKS = 1000, 12


class _Nodes(str):
    """A folded set of nodes that still knows its members."""

    __slots__ = ("members",)
    members: tuple[str, ...]


def _fleet(verdict: FleetVerdict, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.fleet.nodeset import fold
    from attn_doctor.model.fleet import State
    from attn_doctor.report.words.fleet import cohort_lines, headline, plain, sections

    every = frozenset(verdict.states)

    def folded(nodes: Iterable[str]) -> str:
        members = tuple(sorted(set(nodes)))
        rest = every.difference(members)
        few = len(members) > _MOST_LINKS and 0 < len(rest) <= len(members) // 4 and every.issuperset(members)
        shown = _Nodes(f"all but {len(rest):,} of {len(every):,}: {fold(rest)}" if few else fold(members))
        shown.members = members
        return shown

    odd = [node for node in verdict.states if verdict.states[node] is not State.FIT][:_MOST_PAGES]
    place = {node: f"node-{number}" for number, node in enumerate(odd)}
    about: dict[str, list[str]] = {node: [] for node in odd}
    tone = {0: "fit", 1: "bad", 3: "unsure"}[verdict.exit_status]
    stream.write(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>attn-doctor fleet</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n"
        f'<h1 class="{tone}">{escape(headline(verdict))}</h1>\n'
        f"<p>attn-doctor {escape(__version__)}, {escape(verdict.created)}, {verdict.reports:,} reports</p>\n<ul>\n"
    )
    for line in cohort_lines(verdict, folded):
        stream.write(f"<li>{escape(line)}</li>\n")
    stream.write("</ul>\n")
    for section in sections(verdict, folded):
        title = plain(("", section.title))[1]
        stream.write(f'<h2 class="{section.tone}">{escape(title)}</h2>\n<table>\n')
        for told in section.lines:
            nodes, words = plain(told)
            members = told[0].members if isinstance(told[0], _Nodes) else (told[0],)
            for node in members:
                if node in about:
                    about[node].append(f"{title}: {words}")
            stream.write(f"<tr><td>{_cell(nodes, members, place)}</td><td>{escape(words)}</td></tr>\n")
        stream.write("</table>\n")
    _lists(verdict, stream)
    if odd:
        stream.write("<h2>nodes that are not fit</h2>\n<dl>\n")
        for node, lines in about.items():
            state = verdict.states[node].value
            stream.write(f'<dt id="{place[node]}"><b>{escape(plain((node, ""))[0])}</b> {escape(state)}</dt>\n')
            stream.write("".join(f"<dd>{escape(line)}</dd>\n" for line in dict.fromkeys(lines)))
        stream.write("</dl>\n")
    stream.write("</body></html>\n")


def _cell(shown: str, members: tuple[str, ...], place: Mapping[str, str]) -> str:
    """The nodes of a row: few of them as links to what else is known of each, many folded."""
    if 0 < len(members) <= _MOST_LINKS and all(node in place for node in members):
        return ", ".join(f'<a href="#{place[node]}">{escape(harmless(node))}</a>' for node in members)
    return escape(shown)


def _lists(verdict: FleetVerdict, stream: IO[str]) -> None:
    """The nodes of each state, to be copied."""
    from attn_doctor.model.fleet import State

    stream.write("<h2>lists</h2>\n")
    for state in State:
        nodes = verdict.nodes_in(state)
        if nodes:
            stream.write(
                f"<details><summary>{escape(state.value)}: {len(nodes):,}</summary>"
                f"<textarea readonly>{escape(harmless(' '.join(nodes)))}</textarea></details>\n"
            )


def _report(report: Report, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.report.pages import report as pages

    stream.write(pages.whole(report))


def _comparison(compared: Compared, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.report import comparison
    from attn_doctor.report.pages.page import page, tag

    lines = comparison.lines(compared)
    body = tag("h1", lines[-1]) + "".join(
        tag("h2" if line and not line.startswith((" ", "old  ", "new  ", "note:")) else "p", line)
        for line in lines[:-1]
    )
    stream.write(page("attn-doctor compare", body))


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
