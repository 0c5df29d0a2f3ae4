"""What a stored report says about its node now: healthy only where nothing speaks against it."""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.model.exit_status import Status
from attn_doctor.model.report import Report
from attn_doctor.report import standing as status
from tests import strategies

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
DAY = timedelta(days=1)
GOOD = "2026-11-21T11:00:00+00:00"


def _weigh(report: Report, boot_id: str | None = None) -> status.Standing:
    return status.weigh(report, file="r.json", now=NOW, max_age=DAY, boot_id=boot_id)


@given(
    report=strategies.reports,
    created=st.one_of(
        st.text(max_size=30),
        st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1)).map(lambda when: when.isoformat() + "+00:00"),
    ),
)
def test_never_healthy_by_default(report: Report, created: str) -> None:
    """Healthy means: of `check`, ended with 0, nothing assumed or left out, no failure, and made within the span."""
    weighed = _weigh(dataclasses.replace(report, created=created))

    if weighed.status is Status.HEALTHY:
        made = datetime.fromisoformat(created)
        made = made if made.tzinfo else made.replace(tzinfo=timezone.utc)
        assert -timedelta(minutes=5) <= NOW - made <= DAY
        assert report.exit_status == 0
        assert report.failure is None
        assert report.assumed == ()
        assert (report.limited_to, report.left_out) == ((), ())


@given(report=strategies.reports, too_old=st.integers(1, 10**6))
def test_an_old_report_tells_nothing(report: Report, too_old: int) -> None:
    """One second over the span is too old, whatever the report says; so is one from the future."""
    for made in (NOW - DAY - timedelta(seconds=too_old), NOW + timedelta(minutes=5, seconds=too_old)):
        weighed = _weigh(dataclasses.replace(report, created=made.isoformat()))
        assert weighed.status is Status.COULD_NOT_EXAMINE


@given(report=strategies.reports)
def test_a_restart_makes_it_old(report: Report) -> None:
    """After a restart the driver may be another one."""
    if report.identity is None:
        return
    identity = dataclasses.replace(report.identity, volatile={"boot_id": "yesterday's"})

    weighed = _weigh(dataclasses.replace(report, created=GOOD, identity=identity), boot_id="today's")

    assert weighed.status is Status.COULD_NOT_EXAMINE


@given(
    reports=st.lists(strategies.reports, max_size=4),
    node=st.text(min_size=1, max_size=200),
)
def test_what_is_printed_is_short_and_plain(reports: list[Report], node: str) -> None:
    """A first line of 80 characters and an object of 4 KiB, without control characters, and the worst decides."""
    standings = tuple(_weigh(dataclasses.replace(report, created=GOOD)) for report in reports)

    whole_node = status.NodeStanding(node, standings, nothing="nothing")
    line = whole_node.headline()
    whole = json.dumps(whole_node.to_json(), ensure_ascii=False)

    assert len(line) <= 80
    assert line.isprintable()
    assert len(whole.encode()) < 4096
    decided = whole_node.worst
    assert (decided is Status.HEALTHY) == (bool(standings) and all(one.status is Status.HEALTHY for one in standings))


def test_hundreds_of_environments_stay_below_the_limit() -> None:
    """What does not fit is counted."""
    huge = "🦙" * 500
    many = tuple(
        status.Standing(
            file=f"/var/lib/{huge}{number}",
            status=Status.FOUND,
            why=huge,
            created=huge,
            environment=huge,
            findings=(huge,) * 9,
        )
        for number in range(300)
    )

    told = status.NodeStanding(huge, many, nothing=huge).to_json()

    assert len(json.dumps(told, ensure_ascii=False).encode()) < 4096
    assert len(told["reports"]) >= 1
    assert told["left_off"] + len(told["reports"]) == 300
