"""Rolls reports of many nodes up into one answer, or writes down what most of them agree in."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.fleet import golden as goldens
from attn_doctor.fleet.gather import Gathered
from attn_doctor.fleet.reading import Messages, check_sources, read
from attn_doctor.model.fleet import FleetVerdict, Unreadable
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.workflows.fleet.standard import cohorts, standard


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """Which reports, and what they are held against."""

    sources: tuple[str, ...]
    """Folders of reports, files, or - for standard input."""
    expect: str | None = None
    """The nodes there ought to be: a set of names, @FILE of them, or slurm."""
    golden: Path | None = None
    """Compare with this file; None: with the majority."""
    cohort_by: str | None = None
    """What equal nodes have in common: names, with commas."""
    max_age: timedelta | None = None
    """A node whose last report is older is not known to be fit."""
    wait: float = 0.0
    """Seconds, for reports of expected nodes."""


def merge(request: MergeRequest) -> FleetVerdict:
    """One answer for all of them.

    Raises BadInput for what the request names wrongly.
    """
    check_sources(request.sources)
    held = standard(expect=request.expect, golden=request.golden, cohort_by=request.cohort_by, max_age=request.max_age)
    folders = [Path(source) for source in request.sources if Path(source).is_dir()]
    if request.wait and (held.expected is None or len(folders) != len(request.sources)):
        raise BadInput(
            "only folders can be waited for, and for nodes that somebody expects",
            about=f"--wait {request.wait:g}",
            hint="Name folders of reports, and the nodes with --expect.",
        )
    heard = Messages()
    if request.wait:
        return held.awaited(folders, heard, request.wait)
    gathered = Gathered()
    gathered.add_all(read(request.sources, heard))
    return held.judged(gathered, heard)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRequest:
    """Of which reports a golden file is made."""

    sources: tuple[str, ...]
    cohort_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenResult:
    """A golden file, and what is not in it."""

    made: goldens.NewGolden
    unreadable: tuple[Unreadable, ...]


def golden(request: GoldenRequest) -> GoldenResult:
    """What most nodes agree in.

    Raises BadInput for what the request names wrongly.
    """
    check_sources(request.sources)
    gathered = Gathered()
    gathered.add_all(read(request.sources, Messages()))
    made = goldens.make_golden(
        gathered,
        cohort_by=cohorts(request.cohort_by, None),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
    return GoldenResult(made=made, unreadable=tuple(gathered.unreadable))
