"""Kills `fix` a few hundred times and looks at every byte afterwards.

    python bench/fix_crash.py [--kills N] [--pip N] [--seed N]

Two parts. (1) A run of four configuration edits, a patched package and an installation by a stand-in, killed at every
journal boundary and at random ones, its undo killed as well; then `undo`, or `fix --resume`. (2) A real pip that
replaces a package from a wheel house, killed at random instants; then `undo`. Prints counts; ends with 1 when a byte
was between.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.conftest import CHECKOUT, command
from tests.fix.crashing import Scene, in_child
from tests.scenarios.test_fix import ROTARY, _offline, _wheel, seen


def boundaries(folder: Path, kills: int, chance: random.Random) -> tuple[int, list[str]]:
    """Every boundary both ways, then random ones with undo killed too."""
    scene = Scene.make(folder / "whole")
    before = scene.state()
    _, count = in_child(lambda: scene.run(scene.plan()), kill_at=None)
    after = scene.state()
    wrong = []
    done = 0
    while done < kills:
        at = done // 2 if done < 2 * count else chance.randrange(count)
        scene = Scene.make(folder / str(done))
        killed, _ = in_child(lambda scene=scene: scene.run(scene.plan()), kill_at=at)
        if killed and done % 2:
            scene.resume()
            fine = scene.state() in (before, after)
        else:
            for _ in range(chance.randrange(3) if done >= 2 * count else 0):
                in_child(scene.undo, kill_at=chance.randrange(20))
            scene.undo()
            fine = scene.state() == before
        if not fine:
            wrong.append(f"boundary {at}, {'resume' if done % 2 else 'undo'}: {scene.folder}")
        else:
            shutil.rmtree(scene.folder)
        done += 1
    return done, wrong


def real_pip(folder: Path, kills: int, chance: random.Random) -> tuple[int, int, list[str]]:
    """(kills, of those with the installation begun, what went wrong)"""
    wheels = folder / "wheels"
    wheels.mkdir()
    many = {f"x_transformers/part{number}.py": f"a = {number}\n" * 50 for number in range(300)}
    for version in ("1.30.1", "1.30.2"):
        _wheel(wheels, "x_transformers", version, {"x_transformers/__init__.py": f"v = {version!r}\n", **many})
    patient = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(patient)], check=True)
    python = patient / "bin/python"
    line = [str(python), "-m", "pip", "install", "--quiet", "--no-index", "--find-links", str(wheels)]
    subprocess.run([*line, "x-transformers==1.30.1"], check=True, env=_offline(wheels))
    before = seen(patient)
    fix = command(
        "fix", "--quick", "--yes", "--unsafe-fixes", "--only", ROTARY, "--installer", "pip", "--python", python,
        "--no-index", "--find-links", wheels,
    )  # fmt: skip
    wrong = []
    begun = 0
    for number in range(kills):
        running = subprocess.Popen(fix, cwd=CHECKOUT, env=_offline(wheels), stdout=subprocess.DEVNULL)
        journals = patient / ".attn-doctor/runs"
        while running.poll() is None and not any(
            "changing" in text and "undone" not in text for text in _texts(journals)
        ):
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 1.4))
        began = running.poll() is None
        begun += began
        running.kill()
        running.wait()
        subprocess.run(command("undo", "--python", python), cwd=CHECKOUT, stdout=subprocess.DEVNULL, check=True)
        if seen(patient) != before:
            wrong.append(f"kill {number}")
            break
    return kills, begun, wrong


def _texts(journals: Path) -> list[str]:
    found = []
    for file in journals.glob("*/journal.jsonl"):
        try:
            found.append(file.read_text())
        except OSError:
            continue
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--pip", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    folder = Path(tempfile.mkdtemp(prefix="fix-crash-"))
    done, wrong = boundaries(folder, asked.kills, chance)
    print(f"stand-in installer: {done} runs killed, {len(wrong)} left between")
    kills, begun, more = real_pip(folder, asked.pip, chance) if asked.pip else (0, 0, [])
    print(f"real pip: {kills} runs killed, {begun} of them at work, {len(more)} left between")
    for line in (*wrong, *more):
        print(f"  {line}")
    if not wrong and not more:
        shutil.rmtree(folder)
    return 1 if wrong or more else 0


if __name__ == "__main__":
    sys.exit(main())
