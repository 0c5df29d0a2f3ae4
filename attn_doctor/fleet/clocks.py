"""Which reports are old, and which were written by a clock that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from attn_doctor.fleet.cohorts import environment_of
from attn_doctor.fleet.gather import Record, moment


def old_reports(
    records: Sequence[Record], now: datetime, longest: Callable[[Record], timedelta]
) -> tuple[tuple[str, str], ...]:
    """(node, time) for nodes with an environment that was last examined too long ago; `longest`: how long that is."""
    late: dict[tuple[str, str], datetime] = {}  # few: a row for each of a hundred thousand nodes is memory
    for record, created in _dated(records):
        if now - created > longest(record):
            place = record.node, environment_of(record)
            late[place] = max(late.get(place, created), created)
    for record, created in _dated(records) if late else ():
        if now - created <= longest(record):
            late.pop((record.node, environment_of(record)), None)
    found: dict[str, datetime] = {}
    for (node, _), created in late.items():
        found[node] = min(found.get(node, created), created)
    return tuple(sorted((node, created.isoformat(timespec="seconds")) for node, created in found.items()))


def _dated(records: Iterable[Record]) -> Iterator[tuple[Record, datetime]]:
    for record in records:
        try:
            yield record, moment(record.created)
        except ValueError:
            continue  # reported as a wrong clock


def skewed_clocks(
    records: Iterable[Record], now: datetime, allowed: Callable[[Record], timedelta]
) -> tuple[tuple[str, str], ...]:
    """(node, fault) for nodes whose report is dated in the future, or has no date: nobody knows how old it is.

    `allowed`: how far ahead; clocks of a cluster agree to within a second.
    """
    found = {}
    for record in records:
        try:
            ahead = moment(record.created) - now
        except ValueError:
            found[record.node] = f"dated {record.created[:40]!r}, which is no time"
            continue
        if ahead > allowed(record):
            minutes = int(ahead.total_seconds() // 60)
            span = f"{minutes} minutes" if minutes < 2 * 1440 else f"{minutes // 1440:,} days"
            found[record.node] = f"dated {record.created}, {span} from now"
    return tuple(sorted(found.items()))
