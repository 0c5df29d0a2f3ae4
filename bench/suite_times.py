"""What the suite costs in processor time, by folder and file, so that its growth is seen.

    python bench/suite_times.py                          # everything, as `.ci/run` runs it
    python bench/suite_times.py -m unit                  # any arguments of pytest
    python bench/suite_times.py -n 0 tests/fix --slowest 30

Processor seconds are user and system time of the process that runs a test and of every child that it waited for: they
say much the same on a busy machine as on an idle one, which wall time does not. A fixture counts for the test that had
it made. Ends with pytest's own status.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_CHECKOUT = Path(__file__).resolve().parent.parent
_SLOWEST = "ATTN_DOCTOR_SUITE_SLOWEST"


def processor_seconds() -> float:
    """Of this process, and of its children that have ended and were waited for."""
    times = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in times)


class _Times:
    """What each worker measures, and what the controller adds up."""

    def __init__(self, config: pytest.Config) -> None:
        self._before = 0.0
        self._started = time.monotonic()
        self._config = config
        self._by_test: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, object, object]:
        self._before = processor_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        now = processor_seconds()
        report.processor_seconds, self._before = now - self._before, now
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._by_test[report.nodeid] += getattr(report, "processor_seconds", 0.0)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        folders: dict[str, float] = defaultdict(float)
        files: dict[str, float] = defaultdict(float)
        for test, seconds in self._by_test.items():
            file = Path(test.partition("::")[0])
            files[str(file)] += seconds
            folders["/".join(file.parts[:2]) if len(file.parts) > 2 else file.parts[0]] += seconds
        line = terminalreporter.write_line
        terminalreporter.section("processor seconds")
        for title, rows, least in (
            ("folder", folders, 0.0),
            ("file", files, 1.0),
            ("test", self._by_test, 0.2),
        ):
            line(f"by {title}:")
            many = int(os.environ.get(_SLOWEST, "40")) if title != "folder" else len(rows)
            for name, seconds in sorted(rows.items(), key=lambda row: -row[1])[:many]:
                if seconds >= least:
                    line(f"{seconds:9.1f}  {name}")
        # Its workers are the controller's children, so start and collection are in this sum.
        line(
            f"{sum(self._by_test.values()):9.1f}  all tests; wall {time.monotonic() - self._started:.0f} s, "
            f"{os.cpu_count()} cores, load {os.getloadavg()[1]:.1f}"
        )


def pytest_configure(config: pytest.Config) -> None:
    """`-p bench.suite_times` does the same to any call of pytest."""
    config.pluginmanager.register(_Times(config), "suite-times")


def main() -> int:
    """Runs pytest with the arguments given; `--slowest N`: how many files and tests are named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slowest", default="40")
    options, arguments = parser.parse_known_args()
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "bench.suite_times", *(arguments or ["-n", "2"])],
        cwd=_CHECKOUT,
        env={**os.environ, _SLOWEST: options.slowest},
    )
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{spent.ru_utime + spent.ru_stime:9.1f}  processor seconds with start and collection, "
        f"{time.monotonic() - started:.0f} s of wall time"
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
