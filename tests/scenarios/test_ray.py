"""`fleet run --engine ray` on a real Ray of three nodes on one machine: all fit, one hangs, one is killed.

ATTN_DOCTOR_RAY names the bin folder of an environment with Ray; nothing here installs it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CHECKOUT, clean_environment

RAY = os.environ.get("ATTN_DOCTOR_RAY", "")
pytestmark = [pytest.mark.heavy, pytest.mark.skipif(not RAY, reason="ATTN_DOCTOR_RAY names no environment with Ray")]

_CLUSTER = """
import json, sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "num_gpus": 0})
nodes = [cluster.add_node(num_cpus=1, num_gpus=0) for _ in range(2)]
cluster.wait_for_nodes()
raylets = {one.node_id[:8]: one.all_processes["raylet"][0].process.pid for one in nodes}
print("CLUSTER " + json.dumps([cluster.address, raylets]), flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, dict[str, int]]]:
    """Its address, and the raylet of each node but the head."""
    process = subprocess.Popen(
        [f"{RAY}/python", "-c", _CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    address, raylets = next(json.loads(line[8:]) for line in process.stdout if line.startswith("CLUSTER "))
    yield address, raylets
    process.communicate(timeout=60)


def examined(address: str, folder: Path, *, slow: str = "", seconds: int = 0) -> subprocess.Popen[str]:
    """A run whose doctor first sleeps on the node whose name ends with `slow`."""
    doctor = folder / "doctor"
    doctor.write_text(
        f"#!/bin/sh\ncd {CHECKOUT}\n"
        f'case "$NODE_NAME" in *-{slow or "none"}) touch {folder}/began; sleep {seconds};;\nesac\n'
        f'exec {sys.executable} -m attn_doctor "$@"\n'
    )
    doctor.chmod(0o755)
    line = [sys.executable, "-m", "attn_doctor", "fleet", "run", "--engine", "ray", "--address", address, "--json"]
    line += ["--doctor", str(doctor), "--timeout", "20", "--queue-timeout", "10", "--", "--quick"]
    environment = clean_environment(PATH=f"{RAY}:{os.environ['PATH']}")
    return subprocess.Popen(line, cwd=CHECKOUT, env=environment, stdout=subprocess.PIPE, text=True)


def verdict(run: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    """Exit status and answer."""
    out, _ = run.communicate(timeout=150)
    return run.returncode, json.loads(out)


def test_fit_then_hung_then_killed(cluster: tuple[str, dict[str, int]], tmp_path: Path) -> None:
    """Three nodes are fit; the one that hangs, and the one that is killed, is missing by name, the others answer."""
    address, raylets = cluster
    status, answer = verdict(examined(address, tmp_path))
    assert (status, answer["reports"]) == (0, 3)

    hung, killed = raylets
    status, answer = verdict(examined(address, tmp_path, slow=hung, seconds=90))
    assert (status, answer["reports"]) == (3, 2)
    assert "timeout" in json.dumps(answer["missing_because"])
    assert hung in json.dumps(answer["missing_because"])

    (tmp_path / "began").unlink()
    run = examined(address, tmp_path, slow=killed, seconds=15)
    while not (tmp_path / "began").exists() and run.poll() is None:
        try:
            run.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    # Its workers too, as when a machine dies: a task that runs outlives its raylet, and its answer still arrives.
    workers = Path(f"/proc/{raylets[killed]}/task/{raylets[killed]}/children").read_text().split()
    for process in (raylets[killed], *map(int, workers)):
        os.kill(process, signal.SIGKILL)
    status, answer = verdict(run)
    assert (status, answer["reports"]) == (3, 2)
    assert killed in json.dumps(answer["missing_because"])
    assert "Ray" in json.dumps(answer["missing_because"])
