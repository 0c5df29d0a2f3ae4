"""Reads the last reports of this node. Cheap, because hooks run it every few minutes; nothing is examined."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from attn_doctor.errors import BadInput
from attn_doctor.formats import report_v1
from attn_doctor.model.identity import safe_name
from attn_doctor.model.report import Report
from attn_doctor.probe.host.node_names import boot_id, node_name
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.workflows.full_verdicts import Known, find, folder_of

#: Default folder of reports: `check --output /var/lib/attn-doctor/` writes them there.
USUAL = "/var/lib/attn-doctor"
#: Most environments of a node: a folder with more is not one of ours.
_MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """The reports to read."""

    place: Path | None = None
    """A report, or a folder of them; None: $ATTN_DOCTOR_REPORTS, else the usual folder."""
    verdicts: Path | None = None
    """The folder of full verdicts; None: $ATTN_DOCTOR_VERDICTS, else the one in the folder of reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReport:
    """One file and its content."""

    file: Path
    report: Report | None
    trouble: str = ""
    """Why it contains no report of this node."""
    full: Known | None = None
    """Of a report of files alone: what is known of its environment in full."""
    boot_id: str | None = None
    """The present boot id of this node, if the report is about this node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusResult:
    """The reports of one node."""

    node: str
    stored: tuple[StoredReport, ...]
    nothing: str
    """The message when there is no report."""


def status(request: StatusRequest) -> StatusResult:
    """Reads the reports of this node in a folder; a file that is named may be of another node."""
    place = request.place or Path(os.environ.get("ATTN_DOCTOR_REPORTS") or USUAL)
    node = node_name(os.environ).name
    files, nothing = _files(place, node)
    verdicts = folder_of(request.verdicts, place if place.is_dir() else None, os.environ)
    return StatusResult(node=node, stored=tuple(_stored(files, node, verdicts, named=place)), nothing=nothing)


def in_full(python: Path, verdicts: Path | None) -> Known:
    """What is known in full of an environment: its folder, or its interpreter. Looks at no report.

    Raises BadInput when nobody said where verdicts are kept.
    """
    folder = folder_of(verdicts, None, os.environ)
    if folder is None:
        raise BadInput(
            "where are full verdicts kept?", about=f"--python {python}", hint="--verdicts DIR or $ATTN_DOCTOR_VERDICTS."
        )
    # Not resolved: the python of a venv is a link out of it.
    prefix = python.parent.parent if python.parent.name == "bin" else python
    return find(folder, prefix)


def _stored(files: list[Path], node: str, verdicts: Path | None, *, named: Path) -> Iterator[StoredReport]:
    boot = boot_id()
    for file in files:
        try:
            report = report_v1.read(file)
        except BadInput as error:
            yield StoredReport(file=file, report=None, trouble=error.what)
            continue
        here = report.identity is not None and report.identity.node.name == node
        if not here and file != named:
            other = report.identity.node.name if report.identity else "nobody knows which node"
            yield StoredReport(file=file, report=None, trouble=f"the report is of {other}, not of this node")
            continue
        full = None
        if report.quick and verdicts is not None and report.identity is not None and verdicts.is_dir():
            gpus = report.identity.cohort
            full = find(
                verdicts,
                Path(report.identity.environment.prefix),
                gpus.compute_capability if gpus.gpu_count is not None else None,
            )
        yield StoredReport(file=file, report=report, full=full, boot_id=boot if here else None)


def _files(place: Path, node: str) -> tuple[list[Path], str]:
    """The report files of this node, and the message when there is none."""
    try:
        if not place.is_dir():
            return ([place], "") if place.exists() else ([], f"there is no {place}")
        own = re.compile(re.escape(safe_name(node)) + r"\.[^.]+\.json")
        with os.scandir(place) as entries:
            found = sorted(entry.path for entry in entries if own.fullmatch(entry.name))
    except OSError as error:
        return [], f"{place} cannot be read: {error.strerror}"
    return [Path(file) for file in found[:_MOST]], f"no report of this node in {place}"
