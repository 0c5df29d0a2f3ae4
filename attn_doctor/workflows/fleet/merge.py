"""Merges the reports of many nodes into one verdict, or writes the facts on which most of them agree."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.fleet import golden as goldens
from attn_doctor.fleet.gather import Gathered
from attn_doctor.fleet.reading import Messages, check_sources, read
from attn_doctor.fleet.run_folder import RunFolder
from attn_doctor.model.fleet import FleetVerdict, Unreadable
from attn_doctor.quick_dataclasses import dataclass, replace
from attn_doctor.workflows.fleet.standard import Standard, cohorts, standard


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """The reports, and the standard to compare them with."""

    sources: tuple[str, ...]
    """Folders of reports, files, or - for standard input."""
    expect: str | None = None
    """The expected nodes: a node set, @FILE with one, or slurm."""
    golden: Path | None = None
    """The golden file to compare with; None: the majority."""
    cohort_by: str | None = None
    """Facts that equal nodes share: names, separated by commas."""
    max_age: timedelta | None = None
    """A node whose last report is older is not known to be fit; None: as the policy says."""
    accept: Path | None = None
    """A site's policy."""
    wait: float = 0.0
    """Seconds to wait for reports of expected nodes."""

    def standard(self) -> Standard:
        """What the reports are held against. Raises BadInput."""
        return standard(
            expect=self.expect,
            golden=self.golden,
            cohort_by=self.cohort_by,
            max_age=self.max_age,
            age_decides=True,
            accept=self.accept,
        )


def merge(request: MergeRequest) -> FleetVerdict:
    """The verdict over all nodes.

    Raises BadInput for an invalid request.
    """
    check_sources(request.sources)
    held = request.standard()
    folders = [Path(source) for source in request.sources if Path(source).is_dir()]
    plan = RunFolder(folders[0]).plan() if len(request.sources) == len(folders) == 1 else None
    if plan is not None and held.expected is None:  # the folder of a run: the nodes that it asked
        held = replace(held, expected=plan.nodes)
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
    """The reports from which a golden file is made."""

    sources: tuple[str, ...]
    cohort_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenResult:
    """A golden file, and the facts that it does not contain."""

    made: goldens.NewGolden
    unreadable: tuple[Unreadable, ...]


def golden(request: GoldenRequest) -> GoldenResult:
    """Makes a golden file from the facts on which most nodes agree.

    Raises BadInput for an invalid request.
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
