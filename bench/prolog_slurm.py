"""What the task prolog with full verdicts costs a job on a real Slurm, and what it does with an ill environment.

    python bench/prolog_slurm.py --dead FOLDER    # FOLDER: a mount whose server does not answer any more

Needs root, Slurm's daemons and iproute2 (tests/cluster.py). A share that is dead is had without a file server by a FUSE
file system whose process is stopped: `bindfs -f /some/folder FOLDER & kill -STOP $!`; every look at it then blocks.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from attn_doctor.fleet.hooks import Hook, Places, written  # noqa: E402
from attn_doctor.model.full_verdict import FullFinding  # noqa: E402
from tests.cluster import Cluster, up  # noqa: E402
from tests.conftest import make_environment  # noqa: E402
from tests.scenarios.test_full_verdicts import kept  # noqa: E402

ROUNDS = 15


def main() -> None:
    """Runs the cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--dead", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prolog-slurm-") as name:
        folder = Path(name)
        patient = make_environment(folder / "train")
        patient.metadata("torch", "2.13.0")
        verdicts = folder / "verdicts"
        file = kept(verdicts, patient)
        with up(folder / "cluster", 2) as cluster:
            env = {"VIRTUAL_ENV": str(patient.folder)}
            script = prolog(folder, str(verdicts), "no")
            plain, gated = [], []
            for _ in range(ROUNDS):
                plain.append(seconds(cluster, env))
                gated.append(seconds(cluster, env, f"--task-prolog={script}"))
            alone = []
            for _ in range(ROUNDS):
                begun = time.monotonic()
                subprocess.run([str(script)], env=cluster.environment(**env), check=True)
                alone.append(time.monotonic() - begun)
            print(f"srun {middle(plain)}; with the prolog, healthy {middle(gated)}; the prolog alone {middle(alone)}")
            file.unlink()
            kept(verdicts, patient, FullFinding(id="x-transformers-rotary-fp32", severity="error", title="It is."))
            held(cluster, env, folder, prolog(folder, str(verdicts), "hold"))
            if options.dead is not None:
                dead = prolog(folder, str(options.dead), "yes")
                begun = time.monotonic()
                run = cluster.run("srun", "-N1", f"--task-prolog={dead}", "echo", "RAN", env=env)
                print(f"dead share: {time.monotonic() - begun:.1f} s, status {run.returncode}, {run.stdout!r}")


def prolog(folder: Path, verdicts: str, gate: str) -> Path:
    """The hook, as `fleet hook slurm-taskprolog --verdicts` writes it."""
    places = Places(version="1", doctor=(sys.executable, "-m", "attn_doctor"), python="", verdicts=verdicts)
    script = folder / f"prolog-{gate}.sh"
    script.write_text(written(Hook.SLURM_TASKPROLOG, places)["slurm-taskprolog.sh"].replace("GATE=no", f"GATE={gate}"))
    script.chmod(0o755)
    return script


def seconds(cluster: Cluster, env: dict[str, str], *words: str) -> float:
    """How long a job of one task takes."""
    begun = time.monotonic()
    run = cluster.run("srun", "-N1", "-w", "n1", *words, "true", env=env)
    assert run.returncode == 0, run.stderr
    return time.monotonic() - begun


def held(cluster: Cluster, env: dict[str, str], folder: Path, script: Path) -> None:
    """A batch job in an ill environment."""
    job = folder / "job.sh"
    job.write_text(f"#!/bin/sh\nsrun --task-prolog={script} touch {folder}/RAN\n")
    number = cluster.run("sbatch", "--parsable", "-o", f"{folder}/out", job, env=env).stdout.strip()
    begun, said = time.monotonic(), ""
    while time.monotonic() - begun < 30 and "held" not in said.lower():
        time.sleep(0.2)
        said = cluster.run("scontrol", "show", "job", number).stdout
    shown = {key: value for key, _, value in (word.partition("=") for word in said.split())}
    comment = next((line.strip() for line in said.splitlines() if "Comment=" in line), "")
    print(f"ill: {shown.get('JobState')} {shown.get('Reason')} after {time.monotonic() - begun:.1f} s: {comment}")
    print(f"its program ran: {(folder / 'RAN').exists()}")


def middle(times: list[float]) -> str:
    """The median and the least, in ms."""
    return f"{statistics.median(times) * 1000:.0f} ms (least {min(times) * 1000:.0f})"


if __name__ == "__main__":
    main()
