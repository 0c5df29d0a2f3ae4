"""Which reports are old, and which were written by a clock that is wrong."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from attn_doctor.fleet.cohorts import environment_of
from attn_doctor.fleet.gather import Record, moment


def old_reports(
    records: Sequence[Record], now: datetime, longest: Callable[[Record], timedelta]
) -> tuple[tuple[str, str], ...]:
    """(node, time) for nodes with an environment that was last examined too long ago; `longest`: how long that is."""
    late: dict[str, dict[str, datetime]] = defaultdict(dict)  # by environment, then node: a key for both is memory
    for record, created in _dated(records):
        if now - created > longest(record):
            there = late[environment_of(record)]
            there[record.node] = max(there.get(record.node, created), created)
    if not late:
        return ()
    for record, created in _dated(records):
        if now - created <= longest(record) and environment_of(record) in late:
            late[environment_of(record)].pop(record.node, None)
    found: dict[str, datetime] = {}
    for there in late.values():
        for node, created in there.items():
            found[node] = min(found.get(node, created), created)
    written = functools.cache(lambda created: created.isoformat(timespec="seconds"))
    return tuple((node, written(found[node])) for node in sorted(found))


def _dated(records: Iterable[Record]) -> Iterator[tuple[Record, datetime]]:
    read = functools.cache(moment)  # one object for equal times
    for record in records:
        try:
            created = read(record.created)
        except ValueError:
            continue  # reported as a wrong clock
        yield record, created


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
