"""Kills `fix`, `fix --resume` and `undo` on real packages, types what attn-doctor says to type next, and compares.

    python bench/fix_crash.py [--runs N] [--ways pip,uv,bare,full] [--cases x-transformers,fla,...] [--seed N]

Each run takes a fresh copy of an environment, starts a fix, kills the process, its group, or the installer alone
(SIGKILL, SIGTERM, SIGINT, SIGHUP) at a random moment, half of the time kills what is typed next as well, and types the
commands that are printed until one ends with 0. Then the hash, mode, owner and time of every file are those of before
or those of a fix that nobody disturbed; bytecode that imports write and times of folders do not count. Ways: pip, uv
(with hard links into its cache), bare (no pip in the environment: attn-doctor's own works), full (a disk with little
room). Downloads the packages once. Prints counts; ends with 1 when a byte was between.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import hashlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
#: Name -> packages of the environment, and what the fix asks for.
CASES = {
    "x-transformers": (("x-transformers==1.30.1",), ("x-transformers==1.30.2",)),
    "fla": (
        ("fla-core==0.4.0", "flash-linear-attention==0.4.0"),
        ("fla-core==0.4.1", "flash-linear-attention==0.4.1"),
    ),
    "einops": (("einops==0.8.0",), ("einops==0.8.1",)),
    "pth": (("nvidia-cutlass-dsl==4.2.0",), ("nvidia-cutlass-dsl==4.2.1",)),
    "scripts": (("accelerate==1.0.0",), ("accelerate==1.0.1",)),
}
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


def state(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every file with hash, mode, owner, time and number of links; every folder with mode and owner."""
    found: dict[str, tuple[object, ...]] = {}
    for place, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if one not in (".attn-doctor", "__pycache__")]
        for name in (*folders, *files):
            path = Path(place) / name
            seen = path.lstat()
            own = (stat.S_IMODE(seen.st_mode), seen.st_uid, seen.st_gid)
            if path.is_symlink():
                found[str(path.relative_to(folder))] = (*own, os.readlink(path))
            elif path.is_dir():
                found[str(path.relative_to(folder))] = own
            else:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[str(path.relative_to(folder))] = (*own, seen.st_mtime_ns, digest)
    return found


def without_times(seen: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    """What two installations of one release have in common: everything but times, and what holds a time."""
    return {
        name: own if len(own) < 5 else (*own[:3], *own[4:])
        for name, own in seen.items()
        if not name.endswith(("uv_cache.json", "RECORD"))
    }


class Bench:
    """The packages, an environment for each case and way, and what it becomes."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.chance = chance
        self.wheels = folder / "wheels"
        self.lasts: dict[tuple[str, str], float] = {}
        self.after: dict[tuple[str, str], dict[str, tuple[object, ...]]] = {}
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_", "VIRTUAL_ENV"))},
            "PYTHONPATH": str(CHECKOUT),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "UV_CACHE_DIR": str(folder / "uv-cache"),
            "UV_NO_CONFIG": "1",
            "PIP_CONFIG_FILE": os.devnull,
        }

    def fetch(self, case: str) -> None:
        """Downloads both releases, with the settings of this shell."""
        before, after = CASES[case]
        for pin in (*before, *after):
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(self.wheels), pin],
                check=True,
                stderr=subprocess.DEVNULL,
            )

    def template(self, case: str, way: str) -> Path:
        """An environment with the old release."""
        made = self.folder / f"template-{case}-{way}"
        if made.exists():
            return made
        pins = CASES[case][0]
        words = ["--no-deps", "--no-index", "--find-links", str(self.wheels), *pins]
        bare = way == "bare"
        subprocess.run([sys.executable, "-m", "venv", *(["--without-pip"] if bare else []), str(made)], check=True)
        python = str(made / "bin/python")
        tool = ["uv", "pip", "install", "--quiet", "--python", python] if way == "uv" else None
        tool = tool or [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"]
        subprocess.run([*tool, *words], check=True, env=self.environment)
        return made

    def fresh(self, case: str, way: str, where: Path) -> Path:
        """A copy of it, with the same times; hard links lead into the cache as before."""
        template, made = self.template(case, way), where / "environment"
        subprocess.run(["cp", "-a", str(template), str(made)], check=True)
        if way == "uv":
            linked = {one.lstat().st_ino: one for one in (self.folder / "uv-cache").rglob("*") if one.is_file()}
            for file in made.rglob("*"):
                source = template / file.relative_to(made)
                if file.is_file() and not file.is_symlink() and source.lstat().st_ino in linked:
                    file.unlink()
                    os.link(source, file)
        for script in (made / "bin").iterdir():
            if script.is_file() and not script.is_symlink():
                seen = script.stat()
                content = script.read_bytes()
                if str(template).encode() in content:
                    script.write_bytes(content.replace(str(template).encode(), str(made).encode()))
                    os.utime(script, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        return made

    def fix(self, case: str, way: str, environment: Path) -> list[str]:
        """The command that fixes."""
        name, _, old = CASES[case][0][0].partition("==")
        recipe = self.folder / f"recipes-{case}/mine/to-be-moved/recipe.toml"
        recipe.parent.mkdir(parents=True, exist_ok=True)
        recipe.write_text(RECIPE.format(name=name, old=old, new=json.dumps(CASES[case][1])))
        return [
            sys.executable, "-m", "attn_doctor", "fix", "--quick", "--yes", "--unsafe-fixes", "--only", "to-be-moved",
            "--recipes", str(recipe.parent.parent.parent), "--python", str(environment / "bin/python"), "--installer",
            "uv" if way == "uv" else "pip", "--no-index", "--find-links", str(self.wheels),
        ]  # fmt: skip

    def run(self, case: str, way: str) -> tuple[str, str]:
        """One run: (how it ended, what is wrong; empty when nothing is)."""
        with self.place(way) as where:
            environment = self.fresh(case, way, where)
            before = state(environment)
            command = self.fix(case, way, environment)
            ballast = where / "ballast"
            if way == "full" and (case, way) in self.lasts:
                room = os.statvfs(where)
                free = self.chance.choice((8, 64, 256, 1024, 4096)) * 1024
                with ballast.open("wb") as stream, contextlib.suppress(OSError):
                    stream.write(b"\0" * max(0, room.f_bavail * room.f_bsize - free))
            if (case, way) not in self.lasts:
                started = time.monotonic()
                subprocess.run(command, cwd=where, env=self.environment, capture_output=True, check=False)
                self.lasts[case, way] = time.monotonic() - started
                self.after[case, way] = state(environment)
                return "undisturbed", "" if self.after[case, way] != before else "nothing changed"
            self.kill_in_the_middle(command, where, self.lasts[case, way])
            ended = self.type_what_is_said(environment, where, ballast)
            now = state(environment)
            if now == before:
                return f"{ended}, as before", ""
            if without_times(now) == without_times(self.after[case, way]):
                return f"{ended}, as planned", ""
            odd = [name for name in {*now, *before} if now.get(name) != before.get(name)]
            return ended, f"{len(odd)} files, such as {odd[:3]} in {environment}"

    @contextlib.contextmanager
    def place(self, way: str) -> Iterator[Path]:
        """A folder at the same path each time, so that scripts are the same; on a small disk for `full`."""
        where = self.folder / "place"
        where.mkdir()
        if way == "full":
            size = 96 << 20
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(where)], check=True)
        try:
            yield where
        finally:
            if way == "full":
                subprocess.run(["umount", "--lazy", str(where)], check=True)
            shutil.rmtree(where, ignore_errors=True)

    def kill_in_the_middle(self, command: list[str], where: Path, lasts: float) -> None:
        """Starts it, and ends it, its group, or its installer alone after a random time."""
        running = subprocess.Popen(
            command, cwd=where, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
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

    def type_what_is_said(self, environment: Path, where: Path, ballast: Path) -> str:
        """`fix --resume` or `undo`, killed once half of the time, then whatever is printed, until it ends with 0."""
        python = str(environment / "bin/python")
        first = self.chance.choice((["undo"], ["undo"], ["fix", "--quick", "--resume"]))
        command = [sys.executable, "-m", "attn_doctor", *first, "--python", python]
        if "--resume" in command:
            command += ["--no-index", "--find-links", str(self.wheels)]
        if self.chance.random() < 0.5:
            self.kill_in_the_middle(command, where, 2.0 if "undo" in command else 4.0)
        ballast.unlink(missing_ok=True)
        for _ in range(6):
            done = subprocess.run(command, cwd=where, env=self.environment, capture_output=True, text=True, check=False)
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
    parser.add_argument("--ways", default="pip,uv,bare,full")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if "full" in asked.ways and ctypes.CDLL(None).unshare(0x20000) == 0:
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    folder = Path(tempfile.mkdtemp(prefix="fix-crash-"))
    bench = Bench(folder, random.Random(asked.seed))
    wrong = []
    counts: collections.Counter[str] = collections.Counter()
    started = time.monotonic()
    cells = [
        (case, way)
        for case in asked.cases.split(",")
        for way in asked.ways.split(",")
        if (case, way) != ("pth", "full")  # it fills that disk alone
    ]
    for case in asked.cases.split(","):
        bench.fetch(case)
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
