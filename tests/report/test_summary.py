"""Short forms of a report."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.model.exit_status import ExitStyle, Status, styled
from attn_doctor.model.findings import Diagnosis, Finding, Severity
from attn_doctor.model.report import Report
from attn_doctor.report.renderers import prometheus, summary
from tests import strategies


@given(report=strategies.reports)
def test_a_summary_fits(report: Report) -> None:
    """At most 4 KiB, the first line at most 80 characters, nothing of a terminal."""
    text = summary.text(report)

    assert len(text.encode()) <= 4096
    assert len(text.split("\n", 1)[0]) <= 80
    assert all(line.isprintable() for line in text.split("\n"))


@given(report=strategies.reports, long=st.text(min_size=60, max_size=300))
def test_long_names_are_shortened(report: Report, long: str) -> None:
    """Ids and node names of any length leave the first line at 80 characters."""
    finding = Finding(id=long, severity=Severity.ERROR, title=long)

    text = summary.text(dataclasses.replace(report, diagnosis=Diagnosis(findings=(finding,)), failure=None))

    assert len(text.split("\n", 1)[0]) <= 80
    assert len(text.encode()) <= 4096


def test_a_long_summary_counts_what_is_left_out() -> None:
    """Two hundred findings are not all told; how many lines are missing is."""
    finding = Finding(id="a-trouble", severity=Severity.ERROR, title="ä" * 100)
    lines = [f"error {finding.id}: {finding.title}"] * 200

    text = summary.within(lines, 4096)

    told = text.splitlines()
    assert len(text.encode()) <= 4096
    assert told[-1] == f"… and {200 - len(told) + 1} more lines"


_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"'
_SAMPLE = re.compile(rf"({_NAME})(?:\{{({_LABEL}(?:,{_LABEL})*)?\}})? (-?[0-9.]+(?:e[+-]?[0-9]+)?)")


def metrics(text: str) -> dict[str, float]:
    """The samples of a textfile, held strictly against the format: each metric typed once, no sample twice."""
    typed: set[str] = set()
    samples: dict[str, float] = {}
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in typed
            assert kind == "gauge"
            typed.add(name)
        elif line.startswith("# HELP "):
            assert line.split(" ")[2] not in typed
        else:
            match = _SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] in typed
            key = line.rpartition(" ")[0]
            assert key not in samples
            samples[key] = float(match[3])
    return samples


@given(report=strategies.reports, name=st.one_of(st.text(max_size=30), st.sampled_from(('a"b', "a\\", "a\nb"))))
def test_metrics_follow_the_format(report: Report, name: str) -> None:
    """Whatever names and versions a report holds, every line is a sample or a comment."""
    hostile = Finding(id=name, severity=Severity.WARNING, title="")
    diagnosis = Diagnosis(findings=(*report.diagnosis.findings, hostile, hostile))

    samples = metrics(prometheus.text(dataclasses.replace(report, diagnosis=diagnosis)))

    assert samples["attn_doctor_exit_code"] == report.exit_status
    assert samples['attn_doctor_findings{severity="warning"}'] >= 2


@pytest.mark.parametrize(
    ("status", "worst", "nagios", "npd"),
    [
        (Status.HEALTHY, Severity.ERROR, 0, 0),
        (Status.FOUND, Severity.ERROR, 2, 1),
        (Status.FOUND, Severity.WARNING, 1, 1),
        (Status.USAGE, Severity.ERROR, 3, 2),
        (Status.COULD_NOT_EXAMINE, Severity.ERROR, 3, 2),
        (Status.OUR_BUG, Severity.ERROR, 3, 2),
    ],
)
def test_styles(status: Status, worst: Severity, nagios: int, npd: int) -> None:
    """What nobody could look at is unknown in each style, never OK and never a finding."""
    assert styled(status, ExitStyle.NAGIOS, worst=worst) == nagios
    assert styled(status, ExitStyle.NPD, worst=worst) == npd
    assert styled(status, ExitStyle.DEFAULT, worst=worst) == status
