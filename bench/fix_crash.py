"""Kills `fix`, `fix --resume` and `undo` on real packages, types what attn-doctor says to type next, and compares.

    python bench/fix_crash.py [--runs N] [--ways pip,uv,...] [--cases x-transformers,fla,...] [--seed N]
        [--imports]

Each run takes a fresh copy of an environment, starts a fix, kills the process, its group, or the installer alone
(SIGKILL, SIGTERM, SIGINT, SIGHUP) at a random moment, half of the time kills what is typed next as well, and types the
commands that are printed until one ends with 0. Then the hash, mode, owner and time of every file are those of before
or those of a fix that nobody disturbed; bytecode that imports write and times of folders do not count. Packages and
layouts are those of fix_places.py. Downloads the packages once. Prints counts; ends with 1 when a byte was between.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fix_places import BY_UV, CASES, WAYS, Places, State, enter_namespace, python_of, state, without_times

RECIPE = """format = 1
id = "to-be-moved"
title = "{name} is {old}"
severity = "error"
checked = 2026-11-22
status = "stable"
since = "0.1.0"
what = "what"
why = "why"
[[reference]]
kind = "web"
url = "https://example.org/"
[[when]]
fact = "package.{name}.version"
equals = "{old}"
[[remedy]]
id = "other"
title = "Install the other"
safety = "unsafe"
why_this_safety = "It is for this measurement."
actions = [{{ kind = "install-packages", requirements = {new}, no_deps = true }}]
[[case]]
facts = {{ "package.{name}.version" = "{old}" }}
expect = "finds"
[[case]]
expect = "clears"
"""
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Bench:
    """What a fix becomes that nobody disturbs, and runs that are disturbed."""

    def __init__(self, folder: Path, chance: random.Random, *, imports: bool) -> None:
        self.places = Places(folder)
        self.chance = chance
        self.imports = imports
        self.lasts: dict[tuple[str, str], float] = {}
        self.after: dict[tuple[str, str], State] = {}

    def fix(self, case: str, way: str, environment: Path) -> list[str]:
        """The command that fixes."""
        name, _, old = CASES[case][0][0].partition("==")
        recipe = self.places.folder / f"recipes-{case}/mine/to-be-moved/recipe.toml"
        recipe.parent.mkdir(parents=True, exist_ok=True)
        recipe.write_text(RECIPE.format(name=name, old=old, new=json.dumps(CASES[case][1])))
        quick = [] if self.imports else ["--quick"]
        return [
            sys.executable, "-m", "attn_doctor", "fix", *quick, "--yes", "--unsafe-fixes", "--only", "to-be-moved",
            "--recipes", str(recipe.parent.parent.parent), "--python", str(python_of(environment, way)), "--installer",
            "uv" if way in BY_UV else "pip", "--no-index", "--find-links", str(self.places.wheels),
        ]  # fmt: skip

    def run(self, case: str, way: str) -> tuple[str, str]:
        """One run: (how it ended, what is wrong; empty when nothing is)."""
        with self.places.fresh(case, way) as environment:
            where = self.places.place
            before = state(environment)
            command = self.fix(case, way, environment)
            ballast = where / "ballast"
            if (case, way) not in self.lasts:
                return "undisturbed", self.undisturbed(command, environment, before, (case, way))
            if way == "full":
                room = os.statvfs(where)
                free = self.chance.choice((8, 64, 256, 1024, 4096)) * 1024
                with ballast.open("wb") as stream, contextlib.suppress(OSError):
                    stream.write(b"\0" * max(0, room.f_bavail * room.f_bsize - free))
            self.kill_in_the_middle(command, where, self.lasts[case, way])
            ended = self.type_what_is_said(python_of(environment, way), where, ballast)
            now = state(environment)
            if now == before:
                return f"{ended}, as before", ""
            if without_times(now) == without_times(self.after[case, way]):
                return f"{ended}, as planned", ""
            odd = [name for name in {*now, *before} if now.get(name) != before.get(name)]
            return ended, f"{len(odd)} files, such as {odd[:3]}"

    def undisturbed(self, command: list[str], environment: Path, before: State, key: tuple[str, str]) -> str:
        """A fix to its end, and its undo: what is wrong."""
        where = self.places.place
        started = time.monotonic()
        done = self.typed(command, where)
        self.lasts[key] = time.monotonic() - started
        self.after[key] = state(environment)
        if self.after[key] == before:
            return f"nothing changed: {done.stdout[-600:]} {done.stderr[-300:]}"
        undo = [sys.executable, "-m", "attn_doctor", "undo", "--python", str(python_of(environment, key[1]))]
        undone = self.typed(undo, where)
        return "" if state(environment) == before else f"undo left something: {undone.stdout} {undone.stderr}"

    def typed(self, command: list[str], where: Path) -> subprocess.CompletedProcess[str]:
        """A command to its end."""
        environment = self.places.environment
        return subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)

    def kill_in_the_middle(self, command: list[str], where: Path, lasts: float) -> None:
        """Starts it, and ends it, its group, or its installer alone after a random time."""
        running = subprocess.Popen(
            command, cwd=where, env=self.places.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(self.chance.uniform(0.25, 1.05) * lasts)
        how = self.chance.choice(SIGNALS)
        whom = self.chance.choice(("process", "process", "group", "installer"))
        if whom == "installer":
            for pid in _descendants(running.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, how)
        elif whom == "group":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, how)
        else:
            running.send_signal(how)
        running.wait(600)

    def type_what_is_said(self, python: Path, where: Path, ballast: Path) -> str:
        """`fix --resume` or `undo`, killed once half of the time, then whatever is printed, until it ends with 0."""
        first = self.chance.choice((["undo"], ["undo"], ["fix", "--quick", "--resume"]))
        command = [sys.executable, "-m", "attn_doctor", *first, "--python", str(python)]
        if "--resume" in command:
            command += ["--no-index", "--find-links", str(self.places.wheels)]
        if self.chance.random() < 0.5:
            self.kill_in_the_middle(command, where, 2.0 if "undo" in command else 4.0)
        ballast.unlink(missing_ok=True)
        for _ in range(6):
            done = self.typed(command, where)
            if done.returncode == 0 or "everything is as it was" in (done.stdout + done.stderr).lower():
                return first[0]
            said = [shlex.split(one) for one in re.findall(r"`([^`]+)`", done.stderr)]
            if not said:
                return f"{first[0]} said nothing to type: {done.returncode} {done.stderr[-300:]}"
            command = said[-1]
        return "said something to type six times"


def _descendants(pid: int) -> list[int]:
    found = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return [one for one in found if b"pip" in _words(one) or b"uv" in _words(one)] if found else []


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--imports", action="store_true", help="also import what is installed, before and on the shadow"
    )
    asked = parser.parse_args()
    enter_namespace(asked.ways)
    folder = Path(tempfile.mkdtemp(prefix="fix-crash-"))
    bench = Bench(folder, random.Random(asked.seed), imports=asked.imports)
    wrong = []
    counts: collections.Counter[str] = collections.Counter()
    started = time.monotonic()
    cells = [
        (case, way)
        for case in asked.cases.split(",")
        for way in asked.ways.split(",")
        if (case, way) not in (("cutlass", "full"), ("nvidia", "full"))  # they fill that disk alone
    ]
    for case in asked.cases.split(","):
        bench.places.fetch(case)
    for number in range(asked.runs + len(cells)):
        if time.monotonic() - started > asked.seconds:
            break
        case, way = cells[number % len(cells)]
        ended, fault = bench.run(case, way)
        print(f"{time.monotonic() - started:5.0f} s  {case} {way} {ended}", file=sys.stderr, flush=True)
        if ended != "undisturbed":
            counts[f"{case:15} {way:5} {ended}"] += 1
        if fault:
            wrong.append(f"run {number} {case} {way}: {ended}: {fault}")
            print(wrong[-1], flush=True)
    for line, count in sorted(counts.items()):
        print(f"{count:4}  {line}")
    print(f"{sum(counts.values())} runs killed, {len(wrong)} left between")
    shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
