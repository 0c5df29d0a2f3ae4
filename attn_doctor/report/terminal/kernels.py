"""The trials of attention kernels on a terminal: wrong results first, then one table, then the trials that were not
run, with reasons.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from attn_doctor.model.kernels import KernelTrials
from attn_doctor.report.language import say
from attn_doctor.report.words import kernels as table

_STYLES = {
    table.WRONG: "bold red",
    table.BROKEN: "bold yellow",
    table.RIGHT: "green",
    table.NOT_OFFERED: "dim",
    table.NOT_RUN: "dim",
}


def write(trials: KernelTrials, console: Console, *, verbose: bool) -> None:
    """Writes the whole section."""
    console.print(Text(say("[kernels] {title}", title=table.title(trials)), style="bold"), no_wrap=True, crop=False)
    for line in table.gpus(trials, verbose=verbose):
        _line(console, line)
    if trials.ran:
        for one in table.troubles(trials):
            parts = ((f"{one.mark} ", _STYLES[one.mark]), (f"{one.head}: ", "bold"), one.words)
            _line(console, Text.assemble(*parts))
        if words := table.all_right(trials):
            _line(console, words)
        for gpus in table.alike(trials):
            _table(console, trials, gpus)
        for line in table.below(trials, verbose=verbose):
            _line(console, line)
    else:
        for planned in table.plan(trials):
            _line(console, planned.words, 2 + 2 * planned.depth)
    console.print()


def _line(console: Console, text: str | Text, indent: int = 2) -> None:
    body = text if isinstance(text, Text) else Text(text)
    for number, line in enumerate(body.wrap(console, max(console.width - indent - 2, 40))):
        console.print(Text(" " * (indent if number == 0 else indent + 2)) + line, no_wrap=True, crop=False)


def _table(console: Console, trials: KernelTrials, gpus: Sequence[str]) -> None:
    width = table.widest(trials) + 2
    head = "".join(f"{name:9}" for name in table.HEADS.values())
    console.print(Text(f"  {table.where(gpus):{width}}{head}", style="dim"), no_wrap=True, crop=False)
    for name, squares in table.rows(trials, gpus[0]):
        row = Text(f"  {name:{width}}")
        for square in squares:
            row += Text(f"{square.words:9}", style=_STYLES[square.mark])
        console.print(row, no_wrap=True, crop=False)
