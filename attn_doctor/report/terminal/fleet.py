"""The verdict over a fleet for people: failures first, folded node names, one line for each entry."""

from __future__ import annotations

from typing import IO

from rich.text import Text

from attn_doctor.fleet.nodeset import fold
from attn_doctor.model.fleet import FleetVerdict
from attn_doctor.report.terminal.console import ReportConsole
from attn_doctor.report.words.fleet import cohort_lines, headline, plain, sections
from attn_doctor.version import __version__

_STYLES = {"bad": "bold red", "unsure": "yellow", "note": "dim"}


def write(verdict: FleetVerdict, stream: IO[str]) -> None:
    """Writes it."""
    console = ReportConsole(stream)
    style = {0: "bold green", 1: "bold red", 3: "bold yellow"}[verdict.exit_status]
    console.print(Text.assemble(f"attn-doctor {__version__} fleet  ", (headline(verdict), style)), soft_wrap=True)
    for line in cohort_lines(verdict, fold):
        console.print(Text(line, style="dim"), soft_wrap=True)
    for section in sections(verdict, fold):
        console.print()
        console.print(Text(section.title, style=_STYLES[section.tone]), soft_wrap=True)
        for told in section.lines:
            nodes, words = plain(told)
            console.print(Text(f"  {nodes}  {words}" if nodes else f"    {words}"), soft_wrap=True)
