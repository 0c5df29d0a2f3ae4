"""The fleet's verdict for people: what gates first, folded node names, one line a thing."""

from __future__ import annotations

from typing import IO

from rich.text import Text

from attn_doctor.model.fleet import FleetVerdict
from attn_doctor.report.console import ReportConsole
from attn_doctor.report.fleet_lines import Fold, cohort_words, headline, plain, sections

_STYLES = {"bad": "bold red", "unsure": "yellow", "note": "dim"}


def write(verdict: FleetVerdict, stream: IO[str], *, doctor_version: str, fold: Fold) -> None:
    """Writes it."""
    console = ReportConsole(stream)
    style = {0: "bold green", 1: "bold red", 3: "bold yellow"}[verdict.exit_status]
    console.print(Text.assemble(f"attn-doctor {doctor_version} fleet  ", (headline(verdict), style)), soft_wrap=True)
    for cohort in verdict.cohorts:
        same = "one fingerprint" if cohort.fingerprints == 1 else f"{cohort.fingerprints:,} fingerprints"
        count = "1 node" if len(cohort.nodes) == 1 else f"{len(cohort.nodes):,} nodes"
        alike = f"{count}, {same}: {cohort_words(cohort)}"
        console.print(Text(alike, style="dim"), soft_wrap=True)
    for section in sections(verdict, fold):
        console.print()
        console.print(Text(section.title, style=_STYLES[section.tone]), soft_wrap=True)
        for line in section.lines:
            nodes, words = plain(line)
            console.print(Text(f"  {nodes}  {words}" if nodes else f"    {words}"), soft_wrap=True)
