"""Whether `fleet pairs` finds the node whose network is slow, on a real Slurm, with torch's gloo on processors.

    python bench/pairs_slurm.py ENV [--nodes 6]    # ENV: an environment with torch

Needs root, Slurm's daemons and iproute2 (tests/cluster.py). The third node sends 200 Mbit/s at most.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.cluster import up  # noqa: E402

SLOW = ("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "200mbit", "burst", "256kbit", "latency", "400ms")


def main() -> None:
    """Runs it and prints what it says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("environment")
    parser.add_argument("--nodes", type=int, default=6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pairs-slurm-") as folder, up(Path(folder), options.nodes) as cluster:
        subprocess.run(["ip", "netns", "exec", cluster.nodes["n3"].space, *SLOW], check=True)
        begun = time.monotonic()
        done = cluster.run(
            "salloc", f"-N{options.nodes}", f"-n{options.nodes}", sys.executable, "-m", "attn_doctor", "fleet", "pairs",
            "--python", options.environment, "--backend", "gloo", "--megabytes", 8, "--rounds", 3, limit=600,
            env={"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        print(f"{time.monotonic() - begun:.0f} s, status {done.returncode}\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
