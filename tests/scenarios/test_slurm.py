"""`fleet run` and the onboarding script on a real Slurm: what arrives, who is named, and within what time.

Every test has a Slurm of its own: slurmctld, munged and three slurmd with their own network, host name and mounts. What
goes wrong on n2 goes wrong there alone, since only n2 sees the mount.
"""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import SLURM_PROGRAMS, Cluster, lacking, up
from tests.conftest import CHECKOUT, Environment, make_environment

WHY_NOT = lacking(SLURM_PROGRAMS)
if WHY_NOT:
    warnings.warn(f"THE SLURM TESTS DO NOT RUN: {WHY_NOT}", stacklevel=1)
pytestmark = [
    pytest.mark.skipif(bool(WHY_NOT), reason=f"THE SLURM TESTS DO NOT RUN: {WHY_NOT}"),
    # Clusters on one machine compete for its two cores, and for the bridge's addresses.
    pytest.mark.xdist_group("slurm"),
]

Start = Callable[..., AbstractContextManager[Cluster]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts a cluster."""
    return lambda *arguments, **options: up(tmp_path / "cluster", *arguments, **options)


@pytest.fixture
def patient(tmp_path: Path) -> Environment:
    """An environment with nothing to find fault with: the metadata of a torch alone."""
    made = make_environment(tmp_path / "train")
    made.metadata("torch", "2.13.0")
    return made


def asked(cluster: Cluster, patient: Environment, *more: object, limit: float = 100.0) -> dict[str, Any]:
    """`fleet run --json` of all three nodes, files only; with `seconds` and `stderr`."""
    begun = time.monotonic()
    done = cluster.doctor(
        "fleet", "run", "--json", "-w", "n[1-3]", "--timeout", 15, *more, "--", "--quick", "--python", patient.folder,
        limit=limit,
    )  # fmt: skip
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["exit_status"] == done.returncode
    return {**answer, "seconds": time.monotonic() - begun, "stderr": done.stderr}


def planted(tmp_path: Path, source: str) -> tuple[tuple[str, Path], ...]:
    """n2 alone has this code in the place of the probe that looks at the node."""
    file = tmp_path / "planted.py"
    file.write_text(source)
    return ((str(file), CHECKOUT / "attn_doctor" / "probe" / "node.py"),)


class TestNodes:
    """One node in trouble: the others' answers arrive, and it is named."""

    def test_all_fit(self, start: Start, patient: Environment) -> None:
        """Three equal nodes are fit; the command is shown, with the flags that keep reports whole."""
        with start() as cluster:
            answer = asked(cluster, patient)

        assert (answer["exit_status"], answer["nodes"]["fit"]) == (0, ["n1", "n2", "n3"])
        assert [cohort["fingerprints"] for cohort in answer["cohorts"]] == [1]
        assert "srun" in answer["stderr"]
        assert "--label" in answer["stderr"]

    def test_another_torch_on_one_node(self, start: Start, patient: Environment, tmp_path: Path) -> None:
        """The same folder, another torch in it: n2 drifts, in that and nothing else."""
        other = make_environment(tmp_path / "other")
        other.metadata("torch", "2.12.1")
        with start(mounts={"n2": ((str(other.folder), patient.folder),)}) as cluster:
            answer = asked(cluster, patient)

        assert (answer["exit_status"], answer["nodes"]["drifts"]) == (1, ["n2"])
        drift = answer["cohorts"][0]["critical_drift"]
        assert [(group["nodes"], group["differences"]) for group in drift] == [
            (["n2"], [{"fact": "packages.torch", "baseline": "2.13.0", "theirs": "2.12.1"}])
        ]
        assert answer["nodes"]["fit"] == ["n1", "n3"]

    def test_a_frozen_slurmd(self, start: Start, patient: Environment) -> None:
        """It takes the launch and never answers: missing, with what srun says of it."""
        with start() as cluster:
            cluster.freeze("n2")
            answer = asked(cluster, patient)

        assert (answer["exit_status"], answer["nodes"]["missing"]) == (3, ["n2"])
        assert answer["nodes"]["fit"] == ["n1", "n3"]
        assert "n2" in answer["missing_because"]
        assert answer["seconds"] < 60

    def test_a_killed_node(self, start: Start, patient: Environment) -> None:
        """Slurm has not noticed yet."""
        with start() as cluster:
            cluster.kill("n2")
            answer = asked(cluster, patient)

        assert (answer["exit_status"], answer["nodes"]["missing"]) == (3, ["n2"])
        assert answer["nodes"]["fit"] == ["n1", "n3"]
        assert answer["seconds"] < 60

    def test_a_drained_node(self, start: Start, patient: Environment) -> None:
        """srun would wait for it for ever: it is left out of the launch and named with the admin's reason."""
        with start() as cluster:
            cluster.run("scontrol", "update", "nodename=n2", "state=drain", "reason=bad_fan")
            answer = asked(cluster, patient)

        assert (answer["exit_status"], answer["nodes"]["missing"]) == (3, ["n2"])
        assert "bad_fan" in answer["missing_because"]["n2"]
        assert answer["nodes"]["fit"] == ["n1", "n3"]
        assert answer["seconds"] < 30

    def test_a_cable_cut_in_mid_run(self, start: Start, patient: Environment, tmp_path: Path) -> None:
        """What srun ends with is no verdict: n2 is missing because no report came."""
        begun = tmp_path / "begun"
        slow = planted(tmp_path, f"import pathlib, time\npathlib.Path({str(begun)!r}).touch()\ntime.sleep(3600)\n")
        with start(mounts={"n2": slow}) as cluster:

            def cut() -> None:
                end = time.monotonic() + 40
                while not begun.exists() and time.monotonic() < end:
                    time.sleep(0.1)
                cluster.cut("n2")

            hand = threading.Thread(target=cut)
            hand.start()
            answer = asked(cluster, patient)
            hand.join()

        assert begun.exists()
        assert (answer["exit_status"], answer["nodes"]["missing"]) == (3, ["n2"])
        assert answer["nodes"]["fit"] == ["n1", "n3"]
        assert answer["seconds"] < 75

    def test_a_hung_probe(self, start: Start, patient: Environment, tmp_path: Path) -> None:
        """A doctor that hangs on one node costs --timeout and not the fleet."""
        with start(mounts={"n2": planted(tmp_path, "import time\ntime.sleep(3600)\n")}) as cluster:
            answer = asked(cluster, patient)

        assert answer["exit_status"] == 3
        assert answer["nodes"]["fit"] == ["n1", "n3"]
        assert answer["nodes"]["missing"] == ["n2"]
        assert answer["seconds"] < 45

    def test_a_full_disk(self, start: Start, patient: Environment, tmp_path: Path) -> None:
        """n2 has no room to work in, and says so."""
        full = tmp_path / "cluster" / "tmp"
        with start(mounts={"n2": (("tmpfs:4k", full),)}) as cluster:
            answer = asked(cluster, patient)

        assert answer["exit_status"] == 3
        assert answer["nodes"]["fit"] == ["n1", "n3"]
        said = json.dumps([answer["missing_because"], answer["unreadable"], answer["could_not_examine"]])
        assert "n2" in said
        assert "No space left on device" in said

    def test_a_crash_of_ours(self, start: Start, patient: Environment, tmp_path: Path) -> None:
        """A bug of the doctor on one node is told as that."""
        with start(mounts={"n2": planted(tmp_path, "raise RuntimeError('planted')\n")}) as cluster:
            answer = asked(cluster, patient)

        assert answer["exit_status"] == 3
        assert answer["nodes"]["fit"] == ["n1", "n3"]
        said = json.dumps([answer["missing_because"], answer["unreadable"], answer["could_not_examine"]])
        assert "n2" in said
        assert "planted" in said
