"""Who runs from an environment whose packages are to be changed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from attn_doctor.fix.packages.in_use import using
from attn_doctor.machine.target import examine_target
from tests.conftest import Environment

#: Starts what its last argument says, as a run of fix starts an installer.
STARTER = "import subprocess, sys\nsubprocess.run([sys.argv[-1], '-c', 'import time; time.sleep(60)'])\n"


@pytest.mark.parametrize(
    ("arguments", "counts"),
    [(("fix", "--yes"), False), (("undo",), False), (("check",), True), (("explain", "fix"), True)],
    ids=["fix", "undo", "check", "explain"],
)
def test_the_installer_of_another_fix_is_no_stranger(
    environment: Callable[..., Environment], tmp_path: Path, arguments: tuple[str, ...], counts: bool
) -> None:
    """It has the lock, for which we shall wait; what any other command started is in the way."""
    patient = environment()
    target = examine_target(str(patient.python), as_module=False, folder=tmp_path, timeout=30)
    script = tmp_path / "attn-doctor"
    script.write_text(STARTER)
    running = subprocess.Popen([sys.executable, str(script), *arguments, str(patient.python)], start_new_session=True)
    try:
        child = _child(running.pid)
        found = using(target)
    finally:
        subprocess.run(["kill", "--", f"-{running.pid}"], check=False)
        running.wait()

    assert any(line.startswith(f"process {child}: ") for line in found) is counts


def _child(process: int) -> int:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        if children and "sleep" in Path(f"/proc/{children[0]}/cmdline").read_text():
            return int(children[0])
        time.sleep(0.02)
    raise AssertionError("nothing was started")


def test_started_by_a_relative_name(environment: Callable[..., Environment], tmp_path: Path) -> None:
    """`bin/python` in the environment's folder, and `python` found on the program's own PATH."""
    patient = environment()
    target = examine_target(str(patient.python), as_module=False, folder=tmp_path, timeout=30)
    line = ["-c", "import time; time.sleep(60)"]
    path = {"PATH": str(patient.python.parent)}
    started = [
        subprocess.Popen(["bin/python", *line], cwd=patient.folder),
        subprocess.Popen(["python", *line], executable=str(patient.python), env=path),
    ]
    try:
        found = using(target)
    finally:
        for one in started:
            one.kill()
            one.wait()

    assert [any(line.startswith(f"process {one.pid}: ") for line in found) for one in started] == [True, True]
