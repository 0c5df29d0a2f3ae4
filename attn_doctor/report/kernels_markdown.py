"""The trials of attention kernels as Markdown, for pasting into an issue: what is wrong first, then the table, then
what was not run and why."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attn_doctor.machine.printable import one_line
from attn_doctor.model.kernels import KernelTrials
from attn_doctor.report import kernels_table as table


def lines(trials: KernelTrials, *, verbose: bool) -> Iterator[str]:
    """The whole section, line by line."""
    yield f"### Kernels: {_plain(table.title(trials))}"
    yield ""
    gpus = [f"- {_plain(line)}" for line in table.gpus(trials, verbose=verbose)]
    yield from (*gpus, "") if gpus else ()
    if trials.ran:
        yield from _ran(trials, verbose=verbose)
    else:
        first, *rest = table.plan(trials)
        yield _plain(first.words)
        yield ""
        yield from (f"{'  ' * line.depth}- {_plain(line.words)}" for line in rest)
    yield ""


def _ran(trials: KernelTrials, *, verbose: bool) -> Iterator[str]:
    troubles = [f"- **{one.mark} {_plain(one.head)}**: {_plain(one.words)}" for one in table.troubles(trials)]
    yield from (*troubles, "") if troubles else ()
    if words := table.all_right(trials):
        yield from (words, "")
    for gpus in table.alike(trials):
        yield f"| {table.where(gpus)} | {' | '.join(table.HEADS.values())} |"
        yield "| --- |" + " --- |" * len(table.HEADS)
        for name, squares in table.rows(trials, gpus[0]):
            yield f"| {_plain(name)} | {' | '.join(square.words for square in squares)} |"
        yield ""
    yield from (f"- {_plain(line)}" for line in table.below(trials, verbose=verbose))


def _plain(words: str) -> str:
    """On one line, read as it is. Underscores stay: names of people are masked afterwards, and must be found."""
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", one_line(words))
