"""The present state of a node according to a stored report. Healthy only when the report is of this node, complete,
recent, and without errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from attn_doctor.machine.printable import one_line
from attn_doctor.model.exit_status import Status
from attn_doctor.model.full_verdict import FullVerdict
from attn_doctor.model.report import Report
from attn_doctor.quick_dataclasses import dataclass
from attn_doctor.report.language import say
from attn_doctor.report.words import verdict
from attn_doctor.report.words.short import LARGEST, shortened

SCHEMA = "attn-doctor/status/v1"
#: Clocks of two nodes that write to one folder may differ by so much.
_SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One report, weighed."""

    file: str
    status: Status
    why: str
    """In a few words, for a line of 80 characters."""
    node: str = ""
    created: str = ""
    environment: str = ""
    findings: tuple[str, ...] = ()
    kernels: str = ""
    """The result of --kernels, in a few words; empty when not requested."""


def weigh(
    report: Report,
    *,
    file: str,
    now: datetime,
    max_age: timedelta,
    boot_id: str | None,
    full: FullVerdict | None = None,
    no_full: str = "",
) -> Standing:
    """The state according to one report. `boot_id` is the node's present one; None when the report is of another
    node. `full`: of a report of files alone, what a full examination of its environment came to, or why none is known.
    """
    ids = tuple(one.id for one in report.diagnosis.findings if one.accepted is None)
    status, why = _verdict(report, now, max_age, boot_id)
    if status is Status.HEALTHY and full is not None and full.ill:
        status, why, ids = Status.FOUND, full.words(), tuple(one.id for one in full.errors)
    elif status is Status.HEALTHY and (full is not None or no_full):
        why = f"{why}; {full.words() if full is not None else say('files only: {no_full}', no_full=no_full)}"
    return Standing(
        file=file,
        status=status,
        why=why,
        node=report.identity.node.name if report.identity else "",
        created=report.created,
        environment=report.identity.environment.id if report.identity else "",
        findings=ids,
        kernels=_kernels(report),
    )


def _kernels(report: Report) -> str:
    if report.kernels is None:
        return ""
    from attn_doctor.report.words import kernels

    return kernels.brief(report.kernels)


def in_full(full: FullVerdict | None, why: str, *, environment: str) -> Standing:
    """The state of an environment by its full verdict alone; `why` there is none."""
    if full is None:
        return Standing(file=environment, status=Status.COULD_NOT_EXAMINE, why=why)
    status = Status.FOUND if full.ill else Status(full.exit_status)
    ids = tuple(one.id for one in full.findings)
    return Standing(file=environment, status=status, why=full.words(), created=full.created, findings=ids)


def unreadable(file: str, why: str) -> Standing:
    """A report that is none."""
    return Standing(file=file, status=Status.COULD_NOT_EXAMINE, why=why)


def _verdict(report: Report, now: datetime, max_age: timedelta, boot_id: str | None) -> tuple[Status, str]:
    unknown = Status.COULD_NOT_EXAMINE
    try:
        created = datetime.fromisoformat(report.created)
        age = now - (created if created.tzinfo else created.replace(tzinfo=timezone.utc))
    except (ValueError, TypeError, OverflowError):
        return unknown, say("the report does not say when it was made")
    if age < -_SKEW:
        return unknown, say("the report is from the future ({short}): look at the clocks", short=_short(-age))
    if age > max_age:
        return unknown, say("the report is {short} old, older than {short2}", short=_short(age), short2=_short(max_age))
    if report.command != "check":
        return unknown, say("the report is of `{command}`, not of `check`", command=report.command)
    if report.failure is not None:
        return unknown, say("could not examine: {what}", what=report.failure.what)
    if report.assumed:
        return unknown, say("the report judges as if (--gpu, --assume), not what is there")
    then = report.identity.volatile.get("boot_id") if report.identity else None
    if boot_id and then and then != boot_id:
        return unknown, say("the node was restarted since the report")
    said = verdict.in_short(report)
    if report.nothing_to_examine and report.exit_status != Status.FOUND:
        return unknown, said
    if report.limits and report.exit_status == Status.HEALTHY:
        return unknown, say("partial check ({limits}): other recipes were not evaluated", limits=report.limits)
    if report.exit_status == Status.FOUND and not isinstance(report.exit_status, bool):
        return Status.FOUND, said
    if report.exit_status == Status.HEALTHY and not isinstance(report.exit_status, bool):
        return Status.HEALTHY, say("{said}, {short} ago", said=said, short=_short(max(age, timedelta(0))))
    return unknown, say(
        "{said}; the examination ended with status {exit_status}", said=said, exit_status=report.exit_status
    )


class NodeStanding:
    """The states of all reports of a node. `nothing` is the message when there is none."""

    def __init__(self, node: str, reports: Iterable[Standing], *, nothing: str = "") -> None:
        self.node = node
        self.reports = tuple(reports)
        self._nothing = nothing

    @property
    def worst(self) -> Status:
        """Findings rank before unknown, unknown before healthy; without any report the state is unknown."""
        statuses = {one.status for one in self.reports}
        for status in (Status.FOUND, Status.COULD_NOT_EXAMINE):
            if status in statuses:
                return status
        return Status.HEALTHY if statuses else Status.COULD_NOT_EXAMINE

    @property
    def ordered(self) -> tuple[Standing, ...]:
        """The worst first."""
        order = (Status.FOUND, Status.COULD_NOT_EXAMINE, Status.HEALTHY)
        return tuple(sorted(self.reports, key=lambda one: (order.index(one.status), one.file)))

    def headline(self) -> str:
        """One line of at most 80 characters."""
        first = self.ordered[0] if self.reports else None
        said = first.why if first else self._nothing
        if first is None or first.status is Status.COULD_NOT_EXAMINE:
            said = say("not known: {said}", said=said)
        return shortened(f"attn-doctor {shortened(self.node, 40)}: {said}", 80)

    def lines(self) -> list[str]:
        """The headline; with several reports or a problem, also a line for each report."""
        told = [self.headline()]
        for one in self.ordered:
            if len(self.reports) > 1 or one.status is not Status.HEALTHY or one.kernels:
                told.append(f"{one.file}: {one.why}" + (f"; {one.kernels}" if one.kernels else ""))
        if not self.reports:
            told.append(say("Make one: attn-doctor check --quick --output DIR/, and name the folder with --from."))
        return [one_line(line) for line in told]

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values; at most 4 KiB of UTF-8, with the number of omitted entries in `left_off`."""
        whole: dict[str, Any] = {
            "schema": SCHEMA,
            "node": shortened(self.node, 128),
            "status": int(self.worst),
            "line": self.headline(),
            "reports": [],
            "left_off": 0,
        }
        room = LARGEST - 1000
        for one in self.ordered:
            entry: Mapping[str, Any] = {
                "file": one_line(one.file)[-200:],
                "status": int(one.status),
                "why": shortened(one.why, 200),
                "created": shortened(str(one.created), 40),
                "environment": shortened(one.environment, 40),
                "findings": [shortened(id_, 60) for id_ in one.findings[:3]],
                **({"kernels": shortened(one.kernels, 200)} if one.kernels else {}),
            }
            room -= len(json.dumps(entry, ensure_ascii=False).encode()) + 2
            if room < 0:
                whole["left_off"] += 1
            else:
                whole["reports"].append(entry)
        return whole


def _short(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size or (seconds >= size and seconds % size == 0):
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
