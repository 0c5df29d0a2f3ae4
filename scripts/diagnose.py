"""`python3 scripts/diagnose.py`: a first diagnosis. Examines the environment that is here, or where there is none a
small one with a known trouble, in ~/.cache/attn-doctor. Words after it are options of `check`.

    --yes        download what is missing without a question
    --no-torch   download no torch: the embedded patient is then examined by its files alone
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import fresh


def doctor() -> Path:
    """The command, in an environment of its own."""
    folder = fresh.cache() / f"doctor-{sys.version_info.major}.{sys.version_info.minor}"
    command = folder / "bin" / "attn-doctor"
    if not command.exists():
        python = fresh.environment(folder)
        fresh.say("downloading what attn-doctor needs (about 10 MB, no torch)")
        fresh.pip(python, "--editable", str(fresh.ROOT))
    return command


def has_torch(command: Path) -> bool:
    """Whether the environment that a bare `check` finds from here has a torch to examine."""
    asked = subprocess.run(
        [str(command), "check", "--quick", "--json", "--exit-zero"], check=False, capture_output=True, text=True
    )
    try:
        facts = json.loads(asked.stdout)["facts"]
    except (ValueError, KeyError):  # no environment at all
        return False
    return bool(facts.get("torch.version", {}).get("state") == "known")


def patient(*, yes: bool, no_torch: bool) -> tuple[Path, bool]:
    """The interpreter of the embedded patient, and whether it has a torch."""
    folder = fresh.cache() / "patient"
    there = fresh.installed(Path(sys.executable), "torch")
    python = fresh.environment(folder, system=there)
    if not fresh.installed(python, "torch") and not no_torch and (yes or _agreed()):
        try:
            fresh.install_torch(python)
        except subprocess.CalledProcessError:
            fresh.say("torch could not be downloaded (pip's own words are above): it goes on without")
    with_torch = fresh.installed(python, "torch")
    if not fresh.installed(python, "x_transformers"):
        fresh.say(f"installing {fresh.X_TRANSFORMERS}, which turns q and k into float32")
        # It imports packaging, which its metadata does not name.
        more = ("packaging", *_held(python)) if with_torch else ("--no-deps",)
        fresh.pip(python, fresh.X_TRANSFORMERS, *more)
    return python, with_torch


def _held(python: Path) -> list[str]:
    """The torch that is there, named again so that pip keeps it."""
    code = "import importlib.metadata as m; print('torch==' + m.version('torch'))"
    return [subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout.strip()]


def _agreed() -> bool:
    if not sys.stdin.isatty():
        fresh.say("no terminal to ask at: without --yes no torch is downloaded")
        return False
    print(f"-- download torch for CPUs ({fresh.TORCH_SIZE}) to run the patient's code? [y/N] ", end="", file=sys.stderr)
    return input().strip().lower() in ("y", "yes")


def main(words: list[str]) -> int:
    """Runs it; the status is 0 when something was examined, whatever was found."""
    own = {"--yes", "--no-torch"} & set(words)
    options = [word for word in words if word not in own]
    try:
        command = doctor()
    except subprocess.CalledProcessError:
        fresh.say("what attn-doctor needs could not be installed (pip's own words are above); is an index reachable?")
        return 3
    if options or has_torch(command):
        return _ended(subprocess.run([str(command), "check", *options], check=False).returncode)
    fresh.say("no environment with torch is here: a small one with a known trouble is examined instead")
    python, with_torch = patient(yes="--yes" in own, no_torch="--no-torch" in own)
    how = ["--only", "x-transformers"] if with_torch else ["--only", "x-transformers", "--quick"]
    if not with_torch:
        fresh.say("without torch only what its files show can be told: nothing is imported or run")
    ended = subprocess.run([str(command), "check", "--python", str(python), *how], check=False)
    return _ended(ended.returncode)


def _ended(status: int) -> int:
    return 0 if status in (0, 1) else status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
