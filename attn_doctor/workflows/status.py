"""Reads what the last reports of this node say. Light: hooks ask every few minutes, and nothing is examined for it."""

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

#: Where reports lie unless somebody says otherwise: `check --output /var/lib/attn-doctor/` puts them there.
USUAL = "/var/lib/attn-doctor"
#: More environments than any node has: a folder with more is not one of ours.
_MOST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """Which reports are read."""

    place: Path | None = None
    """A report, or a folder of them; None: $ATTN_DOCTOR_REPORTS, else the usual folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReport:
    """One file, and what is in it."""

    file: Path
    report: Report | None
    trouble: str = ""
    """Why there is no report of this node in it."""
    boot_id: str | None = None
    """That of this node now, where the report is of this node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusResult:
    """The reports of one node."""

    node: str
    stored: tuple[StoredReport, ...]
    nothing: str
    """What to say where there is none."""


def status(request: StatusRequest) -> StatusResult:
    """Of a folder all reports of this node; a file that is named may be of another node."""
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
    """The reports of this node, and what to say when there is none."""
    try:
        if not place.is_dir():
            return ([place], "") if place.exists() else ([], f"there is no {place}")
        own = re.compile(re.escape(safe_name(node)) + r"\.[^.]+\.json")
        with os.scandir(place) as entries:
            found = sorted(entry.path for entry in entries if own.fullmatch(entry.name))
    except OSError as error:
        return [], f"{place} cannot be read: {error.strerror}"
    return [Path(file) for file in found[:_MOST]], f"no report of this node in {place}"
