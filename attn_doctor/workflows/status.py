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

#: Default folder of reports: `check --output /var/lib/attn-doctor/` writes them there.
USUAL = "/var/lib/attn-doctor"
#: Most environments of a node: a folder with more is not one of ours.
_MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """The reports to read."""

    place: Path | None = None
    """A report, or a folder of them; None: $ATTN_DOCTOR_REPORTS, else the usual folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReport:
    """One file and its content."""

    file: Path
    report: Report | None
    trouble: str = ""
    """Why it contains no report of this node."""
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
    return StatusResult(node=node, stored=tuple(_stored(files, node, named=place)), nothing=nothing)


def _stored(files: list[Path], node: str, *, named: Path) -> Iterator[StoredReport]:
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
        yield StoredReport(file=file, report=report, boot_id=boot if here else None)


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
