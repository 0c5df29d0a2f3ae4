"""`check --expect`: one node's check that ends as all nodes' answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.conftest import Doctor, Environment
from tests.fleet.reports import line, report


def test_a_report_of_an_earlier_run_does_not_count(
    doctor: Doctor, environment: Callable[..., Environment], tmp_path: Path
) -> None:
    """An old report of the other node does not count; a report of this run does."""
    other = tmp_path / "reports" / "n2.9f2c.json"
    other.parent.mkdir()
    asked = ("check", "--quick", "--python", environment().python, "--expect", "n[1-2]", "--wait", 1, "--output")
    other.write_bytes(line(report("n2", created="2026-01-01T05:00:00+00:00")))

    old = doctor(*asked, other.parent, env={"SLURMD_NODENAME": "n1"})
    # Made while the other one starts, which takes seconds on a busy machine.
    meanwhile = datetime.now(timezone.utc) + timedelta(seconds=30)
    other.write_bytes(line(report("n2", created=meanwhile.isoformat())))
    new = doctor(*asked, other.parent, env={"SLURMD_NODENAME": "n1"})

    assert old.status == 3
    assert "n2  its report is of 2026-01-01T05:00:00+00:00, from before this run" in old.stdout
    assert (new.status, "fit: 2 fit of 2" in new.stdout) == (0, True), new.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--expect", "n1"), "in a folder"),
        (("--expect", "n1", "--output", "DIR/", "--json"), "that of all nodes"),
        (("--expect", "n1", "--output", "DIR/", "--exit-zero"), "that of all nodes"),
        (("--expect", "n[1-", "--output", "DIR/"), "no set of nodes"),
        (("--wait", "5", "--output", "DIR/"), "whose reports"),
    ],
)
def test_bad_input(doctor: Doctor, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    """Told before anything is examined."""
    run = doctor("check", "--quick", *(word.replace("DIR", str(tmp_path / "reports")) for word in arguments))

    assert (run.status, run.stdout) == (2, "")
    assert words in run.stderr
    assert not (tmp_path / "reports").exists()
