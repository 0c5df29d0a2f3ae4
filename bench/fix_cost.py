"""What a fix costs beside what it replaces: one `check` and the installation of the same wheel, in turns.

    python bench/fix_cost.py ENVIRONMENT WHEELS [--rounds N] [--installers pip,uv] [--flags=--quick]

ENVIRONMENT holds torch and x-transformers 1.30.1; WHEELS is a folder with its wheels 1.30.1 and 1.30.2. Every round
times, one after the other: `check`; the installation; `fix`; `undo`. Prints the least wall time and the least processor
time of each, in seconds; the ratio fix / (check + installation) of these; and the median of that ratio over the rounds,
which another program's load of some rounds does not move. A machine with other load tells more by its processor times.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

_BEFORE, _AFTER = "x-transformers==1.30.1", "x-transformers==1.30.2"


def timed(command: list[str]) -> tuple[float, float]:
    """Seconds of wall time and of processor time of a command and all that it waits for."""
    before, started = os.times(), time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall, after = time.monotonic() - started, os.times()
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def installing(kind: str, python: Path, wheels: Path, pin: str) -> list[str]:
    """The command that a person would type instead."""
    own = [str(python), "-m", "pip", "install", "--quiet"]
    tool = own if kind == "pip" else [shutil.which("uv") or "uv", "pip", "install", "--quiet", "--python", str(python)]
    return [*tool, "--no-deps", "--no-index", "--find-links", str(wheels), pin]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", type=Path)
    parser.add_argument("wheels", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--installers", default="pip,uv")
    parser.add_argument("--flags", default="", help="for check and fix")
    asked = parser.parse_args()
    python, flags = asked.environment / "bin/python", asked.flags.split()
    doctor = [sys.executable, "-m", "attn_doctor"]
    for kind in asked.installers.split(","):
        command_of_fix = [*doctor, "fix", *flags, "--yes", "--python", str(python), "--installer", kind, "--no-index",
               "--find-links", str(asked.wheels)]  # fmt: skip
        seen: dict[str, list[tuple[float, float]]] = {}
        for _ in range(asked.rounds):
            timed(installing(kind, python, asked.wheels, _BEFORE))
            for name, command in (
                ("check", [*doctor, "check", *flags, "--python", str(python)]),
                ("install", installing(kind, python, asked.wheels, _AFTER)),
                ("", installing(kind, python, asked.wheels, _BEFORE)),
                ("fix", command_of_fix),
                ("undo", [*doctor, "undo", "--python", str(python)]),
            ):
                seen.setdefault(name, []).append(timed(command))
        least = {name: [min(one) for one in zip(*times, strict=True)] for name, times in seen.items() if name}
        for name, (wall, processor) in least.items():
            print(f"{kind:4} {name:8} {wall:6.2f} s   {processor:6.2f} s of processor time")
        ratios = [
            [fix[n] / (check[n] + install[n]) for n in (0, 1)]
            for check, install, fix in zip(seen["check"], seen["install"], seen["fix"], strict=True)
        ]
        wall, processor = (least["fix"][n] / (least["check"][n] + least["install"][n]) for n in (0, 1))
        print(f"{kind:4} fix / (check + install): {wall:.2f}   {processor:.2f} of processor time")
        wall, processor = (statistics.median(one) for one in zip(*ratios, strict=True))
        print(f"{kind:4} median of the rounds:    {wall:.2f}   {processor:.2f} of processor time", flush=True)


if __name__ == "__main__":
    main()
