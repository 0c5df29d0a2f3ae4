"""The page of many nodes: the verdict, each section with its nodes, lists to copy, and a place for each odd node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from attn_doctor.fleet.nodeset import fold
from attn_doctor.model.fleet import State
from attn_doctor.report.language import say
from attn_doctor.report.pages.page import folded, page, tag, text
from attn_doctor.report.words.fleet import cohort_lines, headline, plain, sections
from attn_doctor.version import __version__

if TYPE_CHECKING:
    from attn_doctor.model.fleet import FleetVerdict

#: Most nodes that have a place of their own on the page, and most that are linked in one row.
_MOST_PAGES, _MOST_LINKS = 1000, 12
#: Classes of the page's style, by the tones of sections.
_TONES = {"bad": "error", "unsure": "warning", "note": "dim"}


class _Nodes(str):
    """A folded set of nodes that still knows its members."""

    __slots__ = ("members",)
    members: tuple[str, ...]


def whole(verdict: FleetVerdict) -> str:
    """The file."""
    every = frozenset(verdict.states)

    def folded_set(nodes: Iterable[str]) -> str:
        members = tuple(sorted(set(nodes)))
        rest = every.difference(members)
        few = len(members) > _MOST_LINKS and 0 < len(rest) <= len(members) // 4 and every.issuperset(members)
        shown = _Nodes(
            say("all but {rest:,} of {every:,}: {fold}", rest=len(rest), every=len(every), fold=fold(rest))
            if few
            else fold(members)
        )
        shown.members = members
        return shown

    odd = [node for node in verdict.states if verdict.states[node] is not State.FIT][:_MOST_PAGES]
    place = {node: f"node-{number}" for number, node in enumerate(odd)}
    about: dict[str, list[str]] = {node: [] for node in odd}
    tone = {0: "ok", 1: "error", 3: "warning"}[verdict.exit_status]
    body = [
        tag("h1", headline(verdict), tone),
        tag(
            "p",
            say(
                "attn-doctor {version}, {created}, {reports:,} reports",
                version=__version__,
                created=verdict.created,
                reports=verdict.reports,
            ),
            "dim",
        ),
        f"<ul>{''.join(tag('li', line) for line in cohort_lines(verdict, folded_set))}</ul>\n",
    ]
    for section in sections(verdict, folded_set):
        title = plain(("", section.title))[1]
        rows = []
        for told in section.lines:
            nodes, words = plain(told)
            members = told[0].members if isinstance(told[0], _Nodes) else (told[0],)
            for node in members:
                if node in about:
                    about[node].append(f"{title}: {words}")
            rows.append(f"<tr><td>{_cell(nodes, members, place)}</td>{tag('td', words)}</tr>\n")
        table = f'<div class="scroll" tabindex="0"><table class="facts">{"".join(rows)}</table></div>\n'
        body.append(f"<section>{tag('h2', title, _TONES.get(section.tone, ''))}{table}</section>\n")
    body += _lists(verdict)
    if odd:
        told_of = "".join(
            f'<dt id="{place[node]}"><b>{text(plain((node, ""))[0])}</b> {text(verdict.states[node].value)}</dt>\n'
            + "".join(tag("dd", line) for line in dict.fromkeys(lines))
            for node, lines in about.items()
        )
        body.append(f"<section>{tag('h2', say('Nodes that are not fit'))}<dl>{told_of}</dl></section>\n")
    return page("attn-doctor fleet", "".join(body))


def _cell(shown: str, members: tuple[str, ...], place: Mapping[str, str]) -> str:
    """The nodes of a row: few of them as links to what else is known of each, many folded."""
    if 0 < len(members) <= _MOST_LINKS and all(node in place for node in members):
        return ", ".join(f'<a href="#{place[node]}">{text(node)}</a>' for node in members)
    return text(shown)


def _lists(verdict: FleetVerdict) -> Iterator[str]:
    """The nodes of each state, to be copied."""
    yield tag("h2", say("Lists"))
    for state in State:
        nodes = verdict.nodes_in(state)
        if nodes:
            area = f'<textarea readonly aria-label="{state.value}">{text(" ".join(nodes))}</textarea>'
            yield folded(f"{state.value}: {len(nodes):,}", area)
