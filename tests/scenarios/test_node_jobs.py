"""`fleet run` by one small Slurm job a node: what is wrong with a node costs its own row alone, with the right words.

One Slurm of twelve nodes for all tests of this file: each has a node of its own to spoil.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.probe.host import node as node_probe
from tests.cluster import SLURM_PROGRAMS, Cluster, lacking, up
from tests.conftest import Environment, make_environment
from tests.fleet.reports import found, line, report

WHY_NOT = lacking(SLURM_PROGRAMS)
if WHY_NOT:
    warnings.warn(f"THE SLURM TESTS DO NOT RUN: {WHY_NOT}", stacklevel=1)
pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(bool(WHY_NOT), reason=f"THE SLURM TESTS DO NOT RUN: {WHY_NOT}"),
]
FIT = ["n1", "n2", "n3"]


class Place:
    """The cluster, a healthy environment, and a folder that all nodes but n10 share."""

    def __init__(self, cluster: Cluster, folder: Path, patient: Environment) -> None:
        self.cluster, self.folder, self.patient = cluster, folder, patient
        self.shared = folder / "shared"
        self._runs = 0

    def new(self) -> Path:
        """A folder for a run."""
        self._runs += 1
        return self.shared / f"run{self._runs}"

    def asked(self, nodes: str, *more: object, into: Path | None = None, limit: float = 100.0) -> dict[str, Any]:
        """`fleet run --json` by files; with `seconds` and `stderr`."""
        begun = time.monotonic()
        done = self.cluster.doctor(
            "fleet", "run", "--json", "-w", nodes, "--timeout", 15, "--reports", into or self.new(), *more, "--",
            "--quick", "--python", self.patient.folder, limit=limit,
        )  # fmt: skip
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        assert answer["exit_status"] == done.returncode, done.stderr
        return {**answer, "seconds": time.monotonic() - begun, "stderr": done.stderr}

    def job(self, node: str, *more: str) -> str:
        """Somebody's job that has the node for itself."""
        script = self.folder / "sleep.sh"
        script.write_text("#!/bin/sh\nsleep 600\n")
        return self.cluster.run(
            "sbatch", "--parsable", f"--nodelist={node}", "--exclusive", "--time=9", "-o", "/dev/null", *more, script
        ).stdout.strip()

    def queue(self) -> list[str]:
        """Names of the jobs in the queue that have not ended."""
        return self.cluster.run("squeue", "-h", "-t", "PD,R,CF", "-o", "%j").stdout.split()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """n4 has another torch, n5 hangs, n6 crashes, n10 does not share the folder; n11 and n12 have GPUs."""
    folder = tmp_path_factory.mktemp("jobs")
    patient, other = make_environment(folder / "train"), make_environment(folder / "other")
    patient.metadata("torch", "2.13.0")
    other.metadata("torch", "2.12.1")
    probe = Path(node_probe.__file__)
    (folder / "hangs.py").write_text("import time\ntime.sleep(3600)\n")
    (folder / "crashes.py").write_text("raise RuntimeError('planted')\n")
    (folder / "shared").mkdir()
    mounts = {
        "n4": ((str(other.folder), patient.folder),),
        "n5": ((str(folder / "hangs.py"), probe),),
        "n6": ((str(folder / "crashes.py"), probe),),
        "n10": (("tmpfs:4m", folder / "shared"),),
    }
    gpus = dict.fromkeys(("n11", "n12"), "Gres=gpu:2")
    gres = "NodeName=n[11-12] Name=gpu File=/dev/tty[0-1]\n"
    with up(folder / "cluster", 12, mounts=mounts, own_options=gpus, gres=gres, more="GresTypes=gpu\n") as cluster:
        yield Place(cluster, folder, patient)


def test_what_each_job_says(place: Place) -> None:
    """Little, and said: without --mem a job may be given the whole node."""
    answer = place.asked("n[1-2]")

    assert answer["exit_status"] == 0
    command = next(line for line in answer["stderr"].splitlines() if line.startswith("+ sbatch"))
    for option in ("--nodelist=n1", "--nodes=1", "--mem=512M", "--time=1", "--cpus-per-task=1", "--no-requeue"):
        assert option in command
    assert "--gres" not in command


def test_gpus_by_each_nodes_own(place: Place) -> None:
    """Two nodes with GPUs and two without, asked for eight: what each has, and no row is lost."""
    wrapper = place.folder / "attn-doctor"
    wrapper.write_text(
        f'#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES" > {place.folder}/$SLURMD_NODENAME\n'
        f'exec {sys.executable} -m attn_doctor "$@"\n'
    )
    wrapper.chmod(0o755)
    answer = place.asked("n[1-2,11-12]", "--gpus-per-node", 8, "--doctor", wrapper)
    seen = {name: (place.folder / name).read_text().strip() for name in ("n1", "n2", "n11", "n12")}

    assert seen == {"n1": "", "n2": "", "n11": "0,1", "n12": "0,1"}
    # The nodes that were given GPUs see none here, so that nobody knows that they are fit.
    assert answer["nodes"]["unsure"] == ["n11", "n12"]
    assert answer["nodes"]["missing"] == []


def test_a_limit_is_later_and_a_refusal_is_a_row(place: Place) -> None:
    """A partition that takes no job of one node says so for its nodes, at once."""
    cluster = place.cluster
    cluster.run("scontrol", "create", "partitionname=wide", "nodes=n[1-3]", "minnodes=2", "state=up")
    answer = place.asked("n[1-2]", "--partition", "wide", "--queue-timeout", 30)

    assert answer["exit_status"] == 3
    assert all("refuses a job on this node alone" in words for words in answer["missing_because"].values())
    assert answer["not_started"] == ["n1", "n2"]
    assert answer["seconds"] < 20


def test_submitted_followed_and_cancelled(place: Place) -> None:
    """--no-wait leaves the jobs; status says what they wait for, --follow gives the answer, cancel takes back."""
    cluster, folder = place.cluster, place.new()
    mine = place.job("n3")
    words = ("fleet", "run", "-w", "n[1-3]", "--reports", folder, "--no-wait", "--", "--quick",
             "--python", place.patient.folder)  # fmt: skip
    done = cluster.doctor(*words)
    assert done.returncode == 0, done.stderr
    assert "3 jobs of this run are in the queue" in done.stdout
    cluster.until(lambda: len(list(folder.glob("*.json"))) == 2, 30, "no reports")
    status = cluster.doctor("fleet", "status", folder)
    assert status.returncode == 3
    assert "2 of 3 nodes reported" in status.stdout
    assert f"(job {mine} of " in status.stdout
    again = cluster.doctor(*words)  # nothing is asked twice
    assert "1 jobs of this run" in again.stdout
    assert len((folder / "run" / "jobs.ndjson").read_text().splitlines()) == 3
    cancelled = cluster.doctor("fleet", "cancel", folder)
    assert "1 jobs cancelled" in cancelled.stdout
    assert mine in cluster.run("squeue", "-h", "-o", "%i").stdout.split()
    answer = cluster.doctor("fleet", "merge", folder, "--follow", "--json")
    assert answer.returncode == 3
    assert json.loads(answer.stdout)["nodes"]["fit"] == ["n1", "n2"]
    cluster.run("scancel", mine)


def test_drained_examined_again_and_resumed(place: Place) -> None:
    """Said first, done with --apply, once; an old report brings no node back, a new fit one does."""
    cluster, folder = place.cluster, place.new()
    folder.mkdir()

    def write(name: str, ill: bool) -> None:
        written = report(name, created=time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()))
        (folder / f"{name}.json").write_bytes(line(found(written, "gpu-xid") if ill else written))

    def asked(*more: str) -> tuple[int, str]:
        done = cluster.doctor("fleet", "quarantine", folder, *more)
        return done.returncode, done.stdout + done.stderr

    for name in ("n1", "n2", "n3"):
        write(name, name == "n1")
    status, said = asked()
    assert (status, "n1: would be drained: [node_problem] attn-doctor: gpu-xid" in said) == (1, True), said
    assert "idle" in cluster.run("sinfo", "-h", "-n", "n1", "-o", "%t").stdout
    assert asked("--apply")[0] == 0
    assert "[node_problem] attn-doctor: gpu-xid" in cluster.run("sinfo", "-h", "-n", "n1", "-o", "%t %E").stdout
    assert "stays out" in asked("--apply")[1]
    time.sleep(1.1)  # the controller's clock has whole seconds
    write("n1", ill=False)
    assert asked("--apply") == (0, "n1: resumed\n")
    assert "idle" in cluster.run("sinfo", "-h", "-n", "n1", "-o", "%t").stdout


def test_each_trouble_costs_its_own_row(place: Place) -> None:
    """Twelve nodes, nine of them spoiled in nine ways: three are fit, and every other row says what is the matter."""
    cluster = place.cluster
    cluster.wait_idle()  # a node that was resumed is `idle*` until slurmctld has heard of it
    busy = place.job("n7")
    cluster.run("scontrol", "create", "reservation", "reservationname=maint", "starttime=now", "duration=60",
                "nodes=n8", "users=nobody")  # fmt: skip
    cluster.run("scontrol", "update", "nodename=n9", "state=drain", "reason=bad_fan")
    cluster.freeze("n11")
    cluster.kill("n12")
    lists = place.folder / "lists"
    answer = place.asked("n[1-12]", "--queue-timeout", 15, "--write-lists", lists)

    assert answer["nodes"]["fit"] == FIT, answer["missing_because"]
    assert answer["nodes"]["drifts"] == ["n4"]
    said = answer["missing_because"]
    assert "did not end within --timeout" in said["n5"]
    assert "planted" in said["n6"]
    assert f"job {busy} of " in said["n7"]
    assert "busy until 20" in said["n7"]
    assert "reserved by maint for nobody" in said["n8"]
    assert "bad_fan" in said["n9"]
    assert "is that folder shared with the node?" in said["n10"]
    assert "does not respond" in said["n11"]
    assert "n12" in said
    # Whom the queue kept away is not excluded for that.
    assert answer["not_started"] == ["n7", "n8"]
    assert (lists / "exclude_nodes.txt").read_text().split() == ["n10", "n11", "n12", "n4", "n5", "n6", "n9"]
    assert not [name for name in place.queue() if name.startswith("attn-doctor-")]
    assert answer["seconds"] < 90
