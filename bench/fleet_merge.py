"""How long `attn-doctor fleet merge` takes over many reports, how much memory, and whether it finds what was planted.

    python bench/fleet_merge.py [--nodes 10000] [--json results.json]

Makes reports of about 20 KB in a temporary file (200 MB for 10,000; --folder also as one file a node), merges them in a
process of its own held to one core, and compares what it said with what was planted: nothing more, nothing less.
Cases: planted (8 kinds of oddity on 60 nodes), ten times as many, and all different.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.fleet.reports import MANY, found, line, report  # noqa: E402

SIZE = 20_000
#: What is planted: (fact, value), and on how many nodes.
ODD: tuple[tuple[str, Any, int], ...] = (
    ("packages.triton", "3.2.0", 5),
    ("packages.flash-attn", "2.8.3", 5),
    ("libraries.libnccl.so.2", "build-id 00000000 390000000 bytes", 5),
    ("gpu_count", 7, 5),
    ("packages.torch", "2.12.1+cu130", 1),
    ("env.NCCL_NVLS_ENABLE", None, 5),
    ("driver", "570.86.10", 24),
)
ILL = 10


def planted(count: int) -> Iterator[tuple[dict[str, Any], str]]:
    """Reports, and what each is: `fit`, a fact's name, or `ill`."""
    kinds = [(name, value) for name, value, number in ODD for _ in range(number)] + [("ill", None)] * ILL
    step = count // len(kinds)
    for number in range(count):
        node = f"gpu{number:06d}"
        kind = kinds[number // step] if number % step == 7 and number // step < len(kinds) else None
        if kind is None:
            yield report(node, **MANY), "fit"
        elif kind[0] == "ill":
            yield found(report(node, **MANY)), "ill"
        else:
            yield report(node, **{**MANY, kind[0]: kind[1]}), kind[0]


def different(count: int) -> Iterator[tuple[dict[str, Any], str]]:
    """A fact that is each node's own, as a slip in a path would make it; every fingerprint is another."""
    for number in range(count):
        odd = number % 1000 == 7
        changes = {"packages.triton": "3.2.0"} if odd else {}
        node = f"gpu{number:06d}"
        yield report(node, **{**MANY, "driver": f"580.{number}", **changes}), "packages.triton" if odd else "fit"


def write(file: Path, reports: Iterator[tuple[dict[str, Any], str]]) -> dict[str, set[str]]:
    """Writes them one a line; gives the nodes of each kind."""
    nodes: dict[str, set[str]] = {}
    with file.open("wb") as out:
        for one, kind in reports:
            out.write(line(one, SIZE))
            nodes.setdefault(kind, set()).add(one["node"]["name"])
    return nodes


def merge(source: Path) -> tuple[float, float, float, dict[str, Any]]:
    """(seconds, processor seconds, MiB at most, the answer)"""
    command = [sys.executable, "-m", "attn_doctor", "fleet", "merge", str(source), "--json"]
    source.stat()
    with tempfile.TemporaryFile() as out:
        begun = time.monotonic()
        process = subprocess.Popen(
            command, stdout=out, cwd=ROOT, preexec_fn=lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        )
        _, _, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        out.seek(0)
        return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, json.load(out)


def judged(answer: dict[str, Any], nodes: dict[str, set[str]]) -> str:
    """What it said against what was planted; empty when they agree."""
    critical = {kind: there for kind, there in nodes.items() if kind not in ("fit", "ill", "driver")}
    seen: dict[str, set[str]] = {}
    for cohort in answer["cohorts"]:
        for group in cohort["critical_drift"] + cohort["benign_drift"]:
            for change in group["differences"]:
                seen.setdefault(change["fact"], set()).update(group["nodes"])
    said = {kind: there for kind, there in seen.items() if kind != "driver"}
    faults = []
    if said != critical:
        faults.append(f"drift {sorted(said)} for {sorted(critical)}")
    if "driver" in nodes and seen.get("driver") != nodes["driver"]:
        faults.append("driver")
    ill = {node for one in answer["findings"] for node in one["nodes"]}
    if ill != nodes.get("ill", set()):
        faults.append("findings")
    bad = set().union(nodes.get("ill", set()), *critical.values())
    every = set().union(*nodes.values())
    if set(answer["nodes"]["fit"]) != every - bad or answer["reports"] != len(every):
        faults.append("fit nodes")
    return "; ".join(faults)


def main() -> None:
    """Runs the cases and prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="also ten times as many: 2 GB of disk")
    parser.add_argument("--folder", action="store_true", help="also as one file a node")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    cases: list[tuple[str, Callable[[int], Iterator[tuple[dict[str, Any], str]]], int]] = [
        ("planted", planted, options.nodes),
        ("all different", different, options.nodes),
    ]
    if options.large:
        cases.append(("planted, ten times", planted, options.nodes * 10))
    for name, make, count in cases:
        with tempfile.TemporaryDirectory(prefix="fleet-merge-") as folder:
            source = Path(folder) / "reports.ndjson"
            nodes = write(source, make(count))
            runs = [merge(source) for _ in range(options.rounds)]
            fault = judged(runs[0][3], nodes)
            results.append(told(name, count, source.stat().st_size, runs, fault))
            if options.folder and make is planted and count == options.nodes:
                files = Path(folder) / "reports"
                files.mkdir()
                for one, _ in make(count):
                    (files / f"{one['node']['name']}.json").write_bytes(line(one, SIZE))
                runs = [merge(files) for _ in range(options.rounds)]
                results.append(
                    told(f"{name}, a file a node", count, source.stat().st_size, runs, judged(runs[0][3], nodes))
                )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


def told(name: str, count: int, size: int, runs: list[tuple[float, float, float, Any]], fault: str) -> dict[str, Any]:
    """Prints one case and gives it."""
    processor = min(run[1] for run in runs)
    seconds, memory = sorted(run[0] for run in runs), max(run[2] for run in runs)
    print(
        f"{name}: {count:,} reports, {size / 1e6:.0f} MB: {seconds[len(seconds) // 2]:.2f} s (least {seconds[0]:.2f}; "
        f"processor {processor:.2f}), "
        f"{memory:.0f} MiB, {fault or 'all planted found, nothing else'}",
        flush=True,
    )
    return {"case": name, "reports": count, "seconds": seconds, "processor": processor, "mib": memory, "fault": fault}


if __name__ == "__main__":
    main()
