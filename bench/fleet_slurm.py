"""What `fleet run` says, and after how many seconds, when nodes of a real Slurm are spoiled one by one and all at once.

    python bench/fleet_slurm.py [--nodes 16] [--together]

Needs root, Slurm's daemons and iproute2 (tests/cluster.py). Each case spoils a node or two, asks them and all healthy
ones by their files, and holds that nobody else is named. `--together`: all cases in one run. Prints a table.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.cluster import Cluster, up  # noqa: E402
from tests.conftest import make_environment  # noqa: E402

SMI = (
    "#!/bin/sh\nif [ $(hostname) = {hangs} ]; then exec sleep 600; fi\n"
    "echo '0, NVIDIA H100 80GB HBM3, GPU-1, 9.0, 81559, Disabled, {driver}'\n"
)
TIMEOUT, QUEUE = 20, 15
#: Nodes with another torch, in clusters that are large enough for it; and nodes that are not in the default partition.
SEVEN = range(16, 23)
ELSEWHERE = ("n23", "n24", "n25")
PARTITIONS = "PartitionName=own Nodes=n23,n24 State=UP\nPartitionName=shut Nodes=n25 State=DOWN\n"


class Bench:
    """A cluster whose nodes are spoiled one by one: n1 and all that no case names are healthy."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count, self.folder = count, folder
        self.shared = folder / "shared"
        self.programs = folder / "programs"
        self.doctor = folder / "opt" / "doctor"
        self.train = make_environment(folder / "train")
        self.train.metadata("torch", "2.13.0")
        other = make_environment(folder / "other")
        other.metadata("torch", "2.12.1")
        for made in (self.shared, self.programs, folder / "away", folder / "opt"):
            made.mkdir()
        self._program(self.programs / "nvidia-smi", SMI.format(hangs="n2", driver="580.95.05"))
        self._program(folder / "other-smi", SMI.format(hangs="none", driver="570.86.10"))
        self._program(self.doctor, f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m attn_doctor "$@"\n')
        torch = [(str(other.folder), self.train.folder)]
        self.mounts = {
            "n3": ((str(folder / "away"), self.folder / "opt"),),
            "n4": (("read-only", self.shared),),
            "n5": ((str(folder / "other-smi"), self.programs / "nvidia-smi"),),
            **{f"n{number}": tuple(torch) for number in (6, *((13, 14, *SEVEN) if count > 16 else ()))},
        }

    @staticmethod
    def _program(file: Path, text: str) -> None:
        file.write_text(text)
        file.chmod(0o755)

    def ask(self, cluster: Cluster, nodes: str) -> tuple[float, dict[str, Any]]:
        """(seconds, the answer)"""
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(dir=self.shared) as reports:
            done = cluster.run(
                sys.executable, "-m", "attn_doctor", "fleet", "run", "--json", "-w", nodes, "--timeout", TIMEOUT,
                "--queue-timeout", QUEUE, "--reports", f"{reports}/run", "--doctor", self.doctor, "--", "--quick",
                "--python", self.train.folder, limit=600, env={"PATH": f"{self.programs}:{os.environ['PATH']}"},
            )  # fmt: skip
        seconds = time.monotonic() - begun
        if not done.stdout:
            raise SystemExit(done.stderr)
        return seconds, json.loads(done.stdout)


def freeze_node(cluster: Cluster, name: str) -> None:
    """Everything on the node stands still, its network as well: nobody answers there."""
    listed = subprocess.run(["ip", "netns", "pids", cluster.nodes[name].space], capture_output=True, text=True).stdout
    for process in listed.split():
        os.kill(int(process), signal.SIGSTOP)
    cluster.cut(name)


def partitions(count: int) -> dict[str, str]:
    """In a large cluster three nodes are not in the default partition."""
    if count <= 16:
        return {}
    return {"in_default": f"n[1-22],n[26-{count}]", "more": PARTITIONS}


def job(cluster: Cluster, bench: Bench, name: str) -> None:
    """Somebody's job on the whole node."""
    script = bench.folder / "sleep.sh"
    script.write_text("#!/bin/sh\nsleep 3000\n")
    cluster.run("sbatch", f"--nodelist={name}", "--exclusive", "--time=60", "-o", "/dev/null", script)


def cases(cluster: Cluster, bench: Bench) -> list[tuple[str, tuple[str, ...], Callable[[], object]]]:
    """(what, nodes, how it comes about)"""

    def nothing() -> None:
        return None

    def update(name: str, *words: str) -> Callable[[], object]:
        return lambda: cluster.run("scontrol", "update", f"nodename={name}", *words)

    reserve = ("scontrol", "create", "reservation", "reservationname=maint", "starttime=now", "duration=60")
    found: list[tuple[str, tuple[str, ...], Callable[[], object]]] = [
        ("hung nvidia-smi", ("n2",), nothing),
        ("missing doctor", ("n3",), nothing),
        ("read-only share", ("n4",), nothing),
        ("another driver", ("n5",), nothing),
        ("another torch", ("n6",), nothing),
        ("busy", ("n7",), lambda: job(cluster, bench, "n7")),
        ("reserved", ("n8",), lambda: cluster.run(*reserve, "nodes=n8", "users=nobody")),
        ("drained", ("n9",), update("n9", "state=drain", "reason=bad_fan")),
        ("down", ("n10",), lambda: (cluster.kill("n10"), update("n10", "state=down", "reason=no_power")())),
        ("slurmd frozen, not yet noticed", ("n11",), lambda: cluster.freeze("n11")),
        ("slurmd killed, not yet noticed", ("n12",), lambda: cluster.kill("n12")),
        ("node frozen, not yet noticed", ("n15",), lambda: freeze_node(cluster, "n15")),
    ]
    if bench.count > 16:
        found.insert(5, ("another torch on two", ("n13", "n14"), nothing))
        found.insert(6, ("another torch on seven", tuple(f"n{number}" for number in SEVEN), nothing))
        found.insert(7, ("partitions: two nodes in another, one in a closed one", ELSEWHERE, nothing))
    return found


def told(answer: dict[str, Any], nodes: tuple[str, ...]) -> str:
    """What is said of these nodes."""
    words = [f"{answer['missing_because'].get(node, '')}" for node in nodes]
    for cohort in answer["cohorts"]:
        for group in cohort["critical_drift"] + cohort["benign_drift"]:
            if set(nodes) & set(group["nodes"]):
                words += [f"{one['fact']} {one['baseline']} → {one['theirs']}" for one in group["differences"]]
        for one in cohort["not_compared"]:
            words += [f"{one['fact']} {value['value']}" for value in one["could_not_look"]]
    return "; ".join(dict.fromkeys(word for word in words if word))[:110]


def row(what: str, count: int, seconds: float, answer: dict[str, Any], nodes: set[str], named: tuple[str, ...]) -> None:
    """Prints one row."""
    state = next((key for key, there in answer["nodes"].items() if named and named[0] in there), "fit")
    unfit = {node for key, there in answer["nodes"].items() if key != "fit" for node in there}
    unjust = sorted(unfit - nodes)
    note = f" **AND {unjust}**" if unjust else ""
    print(f"| {what} | {count} | {seconds:.0f} | {state} | {told(answer, named)}{note} |", flush=True)


def main() -> None:
    """Runs the cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--together", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleet-slurm-") as folder:
        bench = Bench(options.nodes, Path(folder))
        with up(Path(folder) / "cluster", options.nodes, mounts=bench.mounts, **partitions(options.nodes)) as cluster:
            every = {f"n{number}" for number in range(1, options.nodes + 1)}
            spoiled: set[str] = set()
            plan = cases(cluster, bench)
            late = {node for _, nodes, _ in plan for node in nodes}
            print("| what | nodes | s | state | words |\n| --- | --- | --- | --- | --- |")
            seconds, answer = bench.ask(cluster, ",".join(sorted(every - late)))
            row("none", len(every - late), seconds, answer, set(), ())
            for what, nodes, spoil in plan:
                spoil()
                if options.together:
                    spoiled |= set(nodes)
                    continue
                asked = sorted((every - late) | set(nodes))
                seconds, answer = bench.ask(cluster, ",".join(asked))
                row(what, len(asked), seconds, answer, set(nodes), nodes)
            if options.together:
                seconds, answer = bench.ask(cluster, f"n[1-{options.nodes}]")
                for what, nodes, _ in plan:
                    row(f"{what} (together)", options.nodes, seconds, answer, spoiled, nodes)


if __name__ == "__main__":
    main()
