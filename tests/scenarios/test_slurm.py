"""`fleet run` and the onboarding script on a real Slurm: what arrives, who is named, and within what time.

Every test has a Slurm of its own: slurmctld, munged and three slurmd with their own network, host name and mounts. What
goes wrong on n2 goes wrong there alone, since only n2 sees the mount.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from attn_doctor.probe.host import node
from tests.cluster import SLURM_PROGRAMS, Cluster, lacking, up
from tests.conftest import CHECKOUT, HAS_TORCH, Environment, clean_environment, make_environment
from tests.fleet.reports import found, report

WHY_NOT = lacking(SLURM_PROGRAMS)
if WHY_NOT:
    warnings.warn(f"THE SLURM TESTS DO NOT RUN: {WHY_NOT}", stacklevel=1)
pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(bool(WHY_NOT), reason=f"THE SLURM TESTS DO NOT RUN: {WHY_NOT}"),
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
        "fleet", "run", "--json", "--engine", "srun", "-w", "n[1-3]", "--timeout", 15, *more,
        "--", "--quick", "--python", patient.folder, limit=limit,
    )  # fmt: skip
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["exit_status"] == done.returncode
    return {**answer, "seconds": time.monotonic() - begun, "stderr": done.stderr}


def planted(tmp_path: Path, source: str) -> tuple[tuple[str, Path], ...]:
    """n2 alone has this code in the place of the probe that looks at the node."""
    file = tmp_path / "planted.py"
    file.write_text(source)
    return ((str(file), Path(node.__file__)),)


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
            answer = asked(cluster, patient, "--timeout", 8)
            hand.join()

        assert begun.exists()
        assert (answer["exit_status"], answer["nodes"]["missing"]) == (3, ["n2"])
        assert answer["nodes"]["fit"] == ["n1", "n3"]
        assert answer["seconds"] < 75

    def test_a_hung_probe(self, start: Start, patient: Environment, tmp_path: Path) -> None:
        """A doctor that hangs on one node costs --timeout and not the fleet."""
        with start(mounts={"n2": planted(tmp_path, "import time\ntime.sleep(3600)\n")}) as cluster:
            answer = asked(cluster, patient, "--timeout", 8)

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


class TestWhatIsAsked:
    """What reaches Slurm, and hooks that Slurm calls."""

    def test_gpus_are_asked_for(self, start: Start, patient: Environment, tmp_path: Path) -> None:
        """Without them a node with device constraints would report none; where none is seen it is not fit."""
        wrapper = tmp_path / "attn-doctor"
        wrapper.write_text(
            f'#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES" > {tmp_path}/$SLURMD_NODENAME\n'
            f'exec {sys.executable} -m attn_doctor "$@"\n'
        )
        wrapper.chmod(0o755)
        more = {"more": "GresTypes=gpu\n", "node_options": "Gres=gpu:4", "gres": "Name=gpu File=/dev/tty[0-3]\n"}
        with start(**more) as cluster:
            answer = asked(cluster, patient, "--doctor", wrapper, "--gpus-per-node", 2, "--srun-arg=--comment=x")

        assert answer["exit_status"] == 3, answer["stderr"]
        assert answer["nodes"]["unsure"] == ["n1", "n2", "n3"]
        assert {(tmp_path / name).read_text().strip() for name in ("n1", "n2", "n3")} == {"0,1"}
        assert "--comment=x" in answer["stderr"]

    def test_a_task_prolog(self, start: Start, patient: Environment, tmp_path: Path) -> None:
        """It tells the user and lets the task run; with GATE=yes the task fails and the node stays in service."""
        with start() as cluster:
            cluster.doctor("fleet", "hook", "slurm-taskprolog", "--install", tmp_path)
            script = tmp_path / "slurm-taskprolog.sh"
            env = {"VIRTUAL_ENV": str(patient.folder)}
            run = cluster.run("srun", "-N1", f"--task-prolog={script}", "echo", "RAN", env=env)
            assert (run.returncode, "RAN" in run.stdout) == (0, True), run.stderr

            # A doctor that finds something, whatever it is.
            finds = tmp_path / "finds"
            finds.write_text("#!/bin/sh\necho attn-doctor n1: ill\nexit 1\n")
            finds.chmod(0o755)
            cluster.doctor("fleet", "hook", "slurm-taskprolog", "--doctor", finds, "--install", tmp_path)
            told = cluster.run("srun", "-N1", f"--task-prolog={script}", "echo", "RAN", env=env)
            assert "[user_problem] attn-doctor n1: ill" in told.stdout
            assert "RAN" in told.stdout
            script.write_text(script.read_text().replace("GATE=no", "GATE=yes"))
            gated = cluster.run("srun", "-N1", f"--task-prolog={script}", "echo", "RAN", env=env)
            assert gated.returncode != 0
            cluster.wait_idle()

    def test_a_health_check_program(self, start: Start, patient: Environment, tmp_path: Path) -> None:
        """slurmd runs it without PATH; a finding drains its node where somebody said so, and only then."""
        script, reports, ran = tmp_path / "hc.sh", tmp_path / "reports", tmp_path / "ran"
        script.write_text("#!/bin/sh\nexit 0\n")
        script.chmod(0o755)
        reports.mkdir()
        for name in ("n1", "n2", "n3"):
            written = found(report(name)) if name == "n2" else report(name)
            written["created"] = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
            written["volatile"] = {"boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip()}
            (reports / f"{name}.9f2c4411aa.json").write_text(json.dumps(written))
        with start(more=f"HealthCheckProgram={script}\nHealthCheckInterval=3\n") as cluster:
            made = cluster.doctor("fleet", "hook", "slurm-healthcheck", "--python", patient.folder).stdout
            text = made.replace("/var/lib/attn-doctor", str(reports)).replace(
                "DRAIN=no\n", f"DRAIN=no\nexport PYTHONPATH={CHECKOUT} SLURM_CONF={tmp_path}/cluster/slurm.conf\n"
            )

            def put(text: str) -> None:
                (tmp_path / "new").write_text(text)
                (tmp_path / "new").chmod(0o755)
                (tmp_path / "new").replace(script)

            def states() -> str:
                return cluster.run("sinfo", "-h", "-N", "-o", "%N %t %E").stdout

            put(f'{text.rsplit("exit", 1)[0]}echo "$SLURMD_NODENAME $status" >> {ran}\n')
            cluster.until(lambda: ran.exists() and len(set(ran.read_text().splitlines())) == 3, 40, "no health check")
            assert set(ran.read_text().splitlines()) == {"n1 0", "n2 1", "n3 0"}
            assert states().count("idle") == 3
            put(text.replace("DRAIN=no", "DRAIN=yes"))
            cluster.until(lambda: "[node_problem]" in states(), 40, "not drained")
            assert states().count("idle") == 2
            assert "n2 drain" in states()


#: One task's report as one line of so many bytes, each task a node of its own.
SENDER = """
import os, sys
from tests.fleet.reports import line, report
task = int(os.environ["SLURM_PROCID"])
sys.stdout.buffer.write(line(report(f"t{task:03d}"), int(sys.argv[1])))
"""


def sent(cluster: Cluster, folder: Path, *flags: str, nodes: int, tasks: int, size: int) -> dict[str, Any]:
    """What `fleet merge -` makes of reports that srun passes on from `tasks` tasks on each node."""
    sender = folder / "sender.py"
    sender.write_text(SENDER)
    output = folder / "output"
    with output.open("wb") as out:
        subprocess.run(
            ["srun", f"-N{nodes}", f"--ntasks-per-node={tasks}", f"-n{nodes * tasks}", *flags,
             sys.executable, str(sender), str(size)],
            stdout=out, env=cluster.environment(), cwd=CHECKOUT, timeout=200, check=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    last = nodes * tasks - 1
    done = cluster.doctor("fleet", "merge", output, "--json", "--expect", f"t[000-{last:03d}]")
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["exit_status"] == done.returncode
    return answer


class TestLongLines:
    """srun passes standard output on in pieces of 1 KB."""

    def test_with_labels_they_are_put_together(self, start: Start, tmp_path: Path) -> None:
        """24 tasks that speak at once, 20 KB each: all arrive as they were sent."""
        with start() as cluster:
            answer = sent(cluster, tmp_path, "--label", nodes=3, tasks=8, size=20_000)

        assert (answer["exit_status"], len(answer["nodes"]["fit"])) == (0, 24)

    def test_without_labels_they_are_called_unreadable(self, start: Start, tmp_path: Path) -> None:
        """Which of them break is chance; those that do are never fit, and what arrives whole is not doubted."""
        broken = 0
        with start() as cluster:
            for size in (20_000, 20_000, 100_000, 200_000):
                answer = sent(cluster, tmp_path, nodes=3, tasks=8, size=size)
                fit = len(answer["nodes"]["fit"])
                # Pieces of two reports may make a whole one: its facts are nobody's, and their hash says so.
                assert answer["exit_status"] == (0 if fit == 24 else 3)
                assert bool(answer["unreadable"]) == (fit < 24)
                broken += 24 - fit
                if broken:
                    break

        assert broken

    @pytest.mark.heavy
    def test_128_nodes(self, start: Start, tmp_path: Path) -> None:
        """20 KB from each of 128 nodes arrive intact."""
        with start(128) as cluster:
            answer = sent(cluster, tmp_path, "--label", nodes=128, tasks=1, size=20_000)

        assert (answer["exit_status"], len(answer["nodes"]["fit"])) == (0, 128)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The releases that are needed, from the registry: the nodes of these tests have no way out."""
    folder = tmp_path_factory.mktemp("wheels")
    for wanted in ("x-transformers==1.30.1", "x-transformers==1.30.2", "einops", "packaging"):
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), wanted],
            check=True, capture_output=True, timeout=200,
        )  # fmt: skip
    return folder


@pytest.mark.registry
@pytest.mark.skipif(not HAS_TORCH, reason="the Python that runs the tests has no torch")
class TestOnboarding:
    """The sbatch script takes a Slurm from broken to fit."""

    ROTARY = "x-transformers-rotary-fp32"

    def job(self, cluster: Cluster, script: Path, *words: str) -> tuple[int, str]:
        """(exit status, output) of the script as a job on all nodes."""
        return self.ended(cluster, self.submitted(cluster, script, *words), script)

    def submitted(self, cluster: Cluster, script: Path, *words: str, nodes: int = 3) -> str:
        env = {"PIP_NO_INDEX": "1", "ATTN_DOCTOR_PAUSE": "3"}  # a plan that is only shown must not wait for a network
        out = script.parent / "%j.out"
        done = cluster.run(
            "sbatch", "--parsable", f"--nodes={nodes}", "-o", out, script, *words, cwd=script.parent, env=env
        )
        number = done.stdout.strip()
        assert number.isdigit(), done.stderr
        return number

    def ended(self, cluster: Cluster, number: str, script: Path) -> tuple[int, str]:
        out = script.parent / f"{number}.out"
        end = time.monotonic() + 200
        while cluster.run("squeue", "-h", "-j", number).stdout.strip():
            assert time.monotonic() < end, out.read_text()
            time.sleep(0.5)
        told = cluster.run("scontrol", "show", "job", number).stdout
        return int(told.partition("ExitCode=")[2].partition(":")[0]), out.read_text()

    def patient(self, folder: Path, wheels: Path) -> Environment:
        """A shared environment with x-transformers 1.30.1 and a real torch."""
        env = make_environment(folder, torch=True)
        subprocess.run([str(env.python), "-m", "ensurepip"], check=True, capture_output=True, timeout=120)
        subprocess.run(
            [str(env.python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", f"--find-links={wheels}",
             "x-transformers==1.30.1", "einops", "packaging"],
            check=True, capture_output=True, timeout=200, env=clean_environment(),
        )  # fmt: skip
        return env

    def reviewed(self, cluster: Cluster, env: Environment, wheels: Path, folder: Path) -> Path:
        """The script, the cure reviewed."""
        made = cluster.doctor(
            "fleet", "hook", "slurm-job", "--python", env.folder, "--fix", self.ROTARY, "--unsafe-fixes",
            "--fix-arg=--no-index",
            f"--fix-arg=--find-links={wheels}", "--install", folder,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        return folder / "slurm-job.sh"

    def test_from_broken_to_fit(self, start: Start, tmp_path: Path, wheels: Path) -> None:
        """Unreviewed it prints the plan and stops; reviewed it mends once, and COMMAND runs; undo puts it back."""
        env = self.patient(tmp_path / "train", wheels)
        with start() as cluster:
            cluster.doctor("fleet", "hook", "slurm-job", "--python", env.folder, "--install", tmp_path / "unasked")
            status, said = self.job(cluster, tmp_path / "unasked" / "slurm-job.sh", "echo", "RAN")
            assert status == 1, said
            assert "nothing is changed" in said
            assert "none of the nodes is fit" in said
            assert "--exclude" not in said
            assert "RAN" not in said
            assert not (env.folder / ".attn-doctor").exists()

            script = self.reviewed(cluster, env, wheels, tmp_path / "reviewed")
            status, said = self.job(cluster, script, "echo", "RAN")

            assert status == 0, said
            assert f"Fixed, confirmed by a new check: {self.ROTARY}" in said
            assert said.count("[step 1]") == 1
            assert said.rstrip().endswith("RAN")
            assert len(list((env.folder / ".attn-doctor" / "runs").iterdir())) == 1
            assert (env.site / "x_transformers-1.30.2.dist-info").is_dir()
            undone = cluster.doctor("undo", "--python", env.folder)

        assert undone.returncode == 0, undone.stderr
        assert (env.site / "x_transformers-1.30.1.dist-info").is_dir()

    @pytest.mark.heavy
    def test_two_jobs_at_once(self, start: Start, tmp_path: Path, wheels: Path) -> None:
        """One mends, the other waits for it; both come to run what they were given."""
        env = self.patient(tmp_path / "train", wheels)
        with start() as cluster:
            script = self.reviewed(cluster, env, wheels, tmp_path / "reviewed")
            numbers = [self.submitted(cluster, script, "echo", "RAN", nodes=1) for _ in range(2)]
            ended = [self.ended(cluster, number, script) for number in numbers]

        assert [status for status, _ in ended] == [0, 0], ended
        assert sum("Fixed, confirmed by a new check" in said for _, said in ended) == 1
        assert all(said.rstrip().endswith("RAN") for _, said in ended)


CLUSH = shutil.which("clush", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
NO_SSH = lacking(("sshd", "ssh", "ssh-keygen", "ip", "unshare")) or ("" if CLUSH else "not installed: clush")


@pytest.mark.ssh
@pytest.mark.skipif(bool(NO_SSH), reason=f"THE CLUSH TESTS DO NOT RUN: {NO_SSH}")
class TestClush:
    """clush over real sshd, where Slurm cannot or may not start anything."""

    def asked(self, cluster: Cluster, patient: Environment, *more: object) -> dict[str, Any]:
        configuration = cluster.start_sshd()
        # What ssh starts on a node has that node's variables and not ours: a file there sets the path.
        doctor = cluster.folder / "attn-doctor"
        doctor.write_text(f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {sys.executable} -m attn_doctor "$@"\n')
        doctor.chmod(0o755)
        done = cluster.doctor(
            "fleet", "run", "--json", "--engine", "clush", "-w", "n[1-3]", "--timeout", 15, "--doctor", doctor,
            "--clush-arg=-o", f"--clush-arg=-F {configuration}", *more, "--", "--quick", "--python", patient.folder,
            PATH=f"{Path(CLUSH or '').parent}:{os.environ.get('PATH', '')}",
        )  # fmt: skip
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        assert answer["exit_status"] == done.returncode, done.stderr
        return {**answer, "stderr": done.stderr}

    def test_the_same_roll_up(self, start: Start, patient: Environment, tmp_path: Path) -> None:
        """Another torch on n2 is found as under Slurm."""
        other = make_environment(tmp_path / "other")
        other.metadata("torch", "2.12.1")
        with start(slurm=False, mounts={"n2": ((str(other.folder), patient.folder),)}) as cluster:
            answer = self.asked(cluster, patient)

        assert (answer["exit_status"], answer["nodes"]["drifts"], answer["nodes"]["fit"]) == (1, ["n2"], ["n1", "n3"])

    def test_a_drained_node(self, start: Start, patient: Environment) -> None:
        """What srun cannot reach, ssh can."""
        with start() as cluster:
            cluster.run("scontrol", "update", "nodename=n2", "state=drain", "reason=bad_fan")
            answer = self.asked(cluster, patient)

        assert (answer["exit_status"], answer["nodes"]["fit"]) == (0, ["n1", "n2", "n3"])

    def test_a_cut_cable(self, start: Start, patient: Environment) -> None:
        """n2 is missing, with what ssh says of it."""
        with start(slurm=False) as cluster:
            configuration = cluster.start_sshd
            cluster.start_sshd = lambda: (found := configuration(), cluster.cut("n2"))[0]  # type: ignore[method-assign, func-returns-value]
            answer = self.asked(cluster, patient)

        assert (answer["exit_status"], answer["nodes"]["missing"], answer["nodes"]["fit"]) == (3, ["n2"], ["n1", "n3"])
        assert "n2" in answer["missing_because"]
