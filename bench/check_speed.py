"""How long `attn-doctor check` takes, beside what else one would run, and how each meets two faults.

    python bench/check_speed.py --workdir DIR [--rounds 7] [--json FILE] [--patient ENV] [--only speed|faults]

Every subject is run once a round, one after the other, so that a noisy machine is noisy for all of them; medians of
the rounds are compared as ratios. DIR keeps two environments between runs: `patient`, which holds torch and nothing
else, and `rival`, which holds env-doctor and sees the patient's packages. The first run downloads both.

Not a test: nothing here gates. bench/README.md holds the last results.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import json
import os
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
import venv
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
RIVAL = "env-doctor==0.3.5"
LIMIT = 60.0

#: The very code that `check` runs in its child, started as bootstrap.py starts it, without the child.
SAMPLE = """
import importlib.util, sys, torch
folder = {patient!r}
spec = importlib.util.spec_from_file_location("_patient", folder + "/__init__.py", submodule_search_locations=[folder])
sys.modules["_patient"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["_patient"])
from _patient.samples import sdpa_block
ran = []
sdpa_block.run(None, None, lambda told: ran.append(told.get("cell", {{}}).get("outcome")))
assert ran.count("ran") == 4, ran
"""

#: The same block and the same four passes as somebody would write them down, with no look at dtypes.
PLAIN = """
import torch
from torch import nn
from torch.nn import functional as F

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(256, 768), nn.Linear(256, 256)
    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 64, 3, 4, 64).permute(2, 0, 3, 1, 4).unbind(0)
        x = F.scaled_dot_product_attention(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v)
        return self.out(x.transpose(1, 2).reshape(2, 64, 256))

for dtype in (torch.float16, torch.bfloat16):
    for plain in (True, False):
        block, x = Block(), torch.randn(2, 64, 256)
        if plain:
            block, x = block.to(dtype), x.to(dtype)
        with torch.autocast("cpu", dtype=dtype, enabled=not plain):
            y = block(x)
        y.float().square().mean().backward()
        assert all(p.grad.isfinite().all() for p in block.parameters())
"""


@dataclass
class Subject:
    """One command line, and how long it took in each round."""

    name: str
    command: list[str]
    good: tuple[int, ...] = (0,)
    """A command that fails fast has won nothing: other statuses end the benchmark."""
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def main() -> None:
    arguments = _arguments()
    workdir: Path = arguments.workdir.resolve()
    workdir.mkdir(parents=True, exist_ok=True)
    patient = arguments.patient.resolve() if arguments.patient else _patient(workdir)
    rival = _rival(workdir, patient)
    results: dict[str, Any] = {"machine": _machine(patient), "rounds": arguments.rounds}
    if arguments.only in (None, "speed"):
        results["speed"] = _speed(patient, rival, arguments.rounds)
    if arguments.only in (None, "faults"):
        results["faults"] = _faults(workdir, patient, rival)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workdir", type=Path, required=True, help="folder for the two environments, kept")
    parser.add_argument("--patient", type=Path, help="an environment that holds torch, in place of a fresh one")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the results there as well")
    parser.add_argument("--only", choices=("speed", "faults"))
    return parser.parse_args()


# The environments


def _patient(workdir: Path) -> Path:
    return _environment(workdir / "patient", TORCH, "torch")


def _rival(workdir: Path, patient: Path) -> Path:
    rival = _environment(workdir / "rival", RIVAL, "env_doctor")
    # It examines the environment that it lives in: let that be one with torch, as its readers would have it.
    (_site(rival) / "patient.pth").write_text(f"{_site(patient)}\n")
    return rival


def _environment(folder: Path, requirement: str, module: str) -> Path:
    if not (_site(folder) / module).is_dir() if folder.exists() else True:
        print(f"installing {requirement} in {folder}", file=sys.stderr)
        venv.EnvBuilder(with_pip=True, clear=True).create(folder)
        subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", requirement], check=True)
    return folder


def _site(environment: Path) -> Path:
    return next(environment.glob("lib/python3*/site-packages"))


def _machine(patient: Path) -> dict[str, Any]:
    code = "import torch, sys; print(torch.__version__, sys.version.split()[0])"
    torch, python = subprocess.run(
        [patient / "bin" / "python", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "load_before": os.getloadavg()[0],
        "patient": f"Python {python}, torch {torch}",
        "doctor": f"Python {platform.python_version()}",
        "rival": RIVAL,
    }


def _doctor(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "attn_doctor", *arguments]


# Speed


def _speed(patient: Path, rival: Path, rounds: int) -> dict[str, Any]:
    python = str(patient / "bin" / "python")
    sample = SAMPLE.format(patient=str(CHECKOUT / "attn_doctor" / "patient"))
    subjects = [
        Subject("python -c pass", [python, "-c", "pass"]),
        Subject("check --quick", _doctor("check", "--quick", "--python", python), good=(0, 1)),
        Subject("torch.utils.collect_env", [python, "-m", "torch.utils.collect_env"]),
        Subject("env-doctor check", [str(rival / "bin" / "env-doctor"), "check"], good=(0, 1, 2)),
        Subject("import torch", [python, "-c", "import torch"]),
        Subject("import torch; the same sample", [python, "-c", sample]),
        Subject("import torch; a plain block", [python, "-c", PLAIN]),
        Subject("check", _doctor("check", "--python", python), good=(0, 1)),
    ]
    # As pip does on install: where PYTHONDONTWRITEBYTECODE is set, a checkout would be compiled anew in every run.
    compileall.compile_dir(CHECKOUT / "attn_doctor", quiet=2)
    for subject in subjects:  # files come from memory from here on, for all of them
        _measure(subject)
        subject.seconds.clear()
        subject.processor.clear()
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for subject in subjects:
            _measure(subject)
    named = {subject.name: subject for subject in subjects}
    ratios = [
        _ratio(named, "torch.utils.collect_env", "check --quick", at_least=8.0),
        _ratio(named, "env-doctor check", "check --quick", at_least=8.0),
        _ratio(named, "check", "import torch; the same sample", at_most=1.3),
        _ratio(named, "check", "import torch; a plain block"),
        _ratio(named, "check --quick", "python -c pass"),
    ]
    print(f"{'':32} {'median s':>9} {'min s':>7} {'max s':>7} {'cpu s':>7}")
    for subject in subjects:
        low, high, cpu = min(subject.seconds), max(subject.seconds), statistics.median(subject.processor)
        print(f"{subject.name:32} {subject.median:9.3f} {low:7.3f} {high:7.3f} {cpu:7.3f}")
    for ratio in ratios:
        print(f"{ratio['of']} / {ratio['to']}: {ratio['ratio']:.2f} (of minima {ratio['of_minima']:.2f}){ratio['aim']}")
    return {
        "subjects": {
            subject.name: {"seconds": subject.seconds, "processor_seconds": subject.processor} for subject in subjects
        },
        "ratios": ratios,
    }


def _measure(subject: Subject) -> None:
    with tempfile.TemporaryFile() as out:
        started = time.perf_counter()
        process = subprocess.Popen(subject.command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=CHECKOUT)
        # wait4 counts the processor time of what it waited for in turn, unlike a stop-watch on a busy machine
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in subject.good:
            out.seek(0)
            sys.exit(f"{subject.name} ended with {process.returncode}:\n{out.read().decode(errors='replace')[-2000:]}")
    subject.seconds.append(round(seconds, 4))
    subject.processor.append(round(usage.ru_utime + usage.ru_stime, 4))


def _ratio(
    named: dict[str, Subject], of: str, to: str, *, at_least: float | None = None, at_most: float | None = None
) -> dict[str, Any]:
    ratio = named[of].median / named[to].median
    aim = ""
    if at_least is not None:
        aim = f", aim at least {at_least:g}: {'met' if ratio >= at_least else 'missed'}"
    elif at_most is not None:
        aim = f", aim at most {at_most:g}: {'met' if ratio <= at_most else 'missed'}"
    minima = min(named[of].seconds) / min(named[to].seconds)
    return {"of": of, "to": to, "ratio": round(ratio, 3), "of_minima": round(minima, 3), "aim": aim}


# Faults


def _faults(workdir: Path, patient: Path, rival: Path) -> list[dict[str, Any]]:
    """A flash_attn that crashes on import, and an nvidia-smi that never answers."""
    planted = workdir / "planted"
    flash = planted / "flash" / "flash_attn"
    flash.mkdir(parents=True, exist_ok=True)
    (flash / "__init__.py").write_text("import ctypes\nctypes.memmove(0, 1, 1)\n")
    info = planted / "flash" / "flash_attn-2.8.3.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8.3\n")
    smi = planted / "bin" / "nvidia-smi"
    smi.parent.mkdir(exist_ok=True)
    smi.write_text("#!/bin/sh\nexec sleep 3600\n")
    smi.chmod(0o755)
    python = str(patient / "bin" / "python")
    tools = {
        "attn-doctor check": _doctor("check", "--timeout", "10", "--python", python),
        "torch.utils.collect_env": [python, "-m", "torch.utils.collect_env"],
        "env-doctor check": [str(rival / "bin" / "env-doctor"), "check"],
    }
    faults = [
        (
            "flash_attn segfaults on import",
            {"PYTHONPATH": str(flash.parent)},
            r"(?i)flash.?attn.*(crash|kill|segfault|sigsegv|signal)|(crash|kill|segfault|sigsegv).*flash.?attn",
        ),
        (
            "nvidia-smi hangs",
            {"PATH": f"{smi.parent}:{os.environ['PATH']}"},
            r"(?i)(driver|nvidia-smi|nvml).*(not answer|hang|hung|time.?out|not respond)",
        ),
    ]
    found = []
    for fault, changes, names_it in faults:
        for tool, command in tools.items():
            one = {"fault": fault, "tool": tool, **_outcome(command, {**os.environ, **changes}, names_it)}
            found.append(one)
            named = "names the fault" if one["names_the_fault"] else "does not name it"
            print(f"{fault:32} {tool:26} {one['ended']:20} {one['seconds']:6.1f} s  {named}")
    return found


def _outcome(command: list[str], environment: dict[str, str], names_it: str) -> dict[str, Any]:
    started = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            stdin=subprocess.DEVNULL,
            cwd=CHECKOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            process.wait(LIMIT)
            ended = f"status {process.returncode}"
            if process.returncode < 0:
                ended = f"killed by {signal.Signals(-process.returncode).name}"
        except subprocess.TimeoutExpired:
            ended = f"still ran at {LIMIT:.0f} s"
        finally:
            # Only our own: it is the leader of its session.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        words = out.read().decode(errors="replace")
    return {
        "ended": ended,
        "seconds": round(time.monotonic() - started, 1),
        "names_the_fault": any(re.search(names_it, line) for line in words.splitlines()),
        "last_words": textwrap.shorten(" ".join(words.split()[-30:]), 200),
    }


if __name__ == "__main__":
    main()
