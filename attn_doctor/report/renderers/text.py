"""`text`: for a person at a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any

from attn_doctor.report.renderer import (
    CHECK,
    COMPARISON,
    EXPLAIN,
    FLEET,
    PLAN,
    SDPA,
    STATUS,
    TRACE,
    Manner,
    Media,
    Page,
    Renderer,
)

if TYPE_CHECKING:
    from attn_doctor.model.fleet import FleetVerdict
    from attn_doctor.model.report import Report
    from attn_doctor.model.stack import StackAnswer
    from attn_doctor.report.comparison import Compared
    from attn_doctor.report.standing import NodeStanding

# rich costs as much as reading all metadata: each page is loaded when it is written.


def write_report(report: Report, stream: IO[str], manner: Manner) -> None:
    """The page of `check` and `trace`: short, or with -v all of it."""
    if manner.verbose:
        from attn_doctor.report.terminal import report as full

        full.write(report, stream, verbose=True)
    else:
        from attn_doctor.report.terminal import brief

        brief.write(report, stream)


def write_explanation(report: Report, stream: IO[str], manner: Manner) -> None:
    """The page of `explain`."""
    from attn_doctor.report.terminal import explain

    explain.write(report, stream, verbose=manner.verbose)


def _fleet(verdict: FleetVerdict, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.report.terminal import fleet

    fleet.write(verdict, stream)


def _comparison(compared: Compared, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.report import comparison

    stream.writelines(f"{line}\n" for line in comparison.lines(compared))


def _plan(answer: StackAnswer, stream: IO[str], manner: Manner) -> None:
    from attn_doctor.report.terminal import stack

    stack.write(answer, stream, verbose=manner.verbose)


def _standing(standing: NodeStanding, stream: IO[str], manner: Manner) -> None:
    stream.writelines(f"{line}\n" for line in standing.lines())


def _call(explained: tuple[str, Mapping[str, Any]], stream: IO[str], manner: Manner) -> None:
    from attn_doctor.report.terminal import sdpa

    call, answer = explained
    sdpa.write(call, answer, stream)


RENDERER = Renderer(
    "text",
    suffixes=(".txt",),
    media=Media.PERSON,
    pages=(
        Page(CHECK, write_report),
        Page(TRACE, write_report),
        Page(EXPLAIN, write_explanation),
        Page(FLEET, _fleet),
        Page(COMPARISON, _comparison),
        Page(PLAN, _plan, suffixes=()),  # a plan's .txt is one of requirements
        Page(STATUS, _standing),
        Page(SDPA, _call),
    ),
)
