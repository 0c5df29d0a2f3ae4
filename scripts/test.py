"""`python3 scripts/test.py`: makes .venv with everything that the tests need, and runs them. Words after it are
options of pytest.

    --set-up-only        make the environment and run nothing
    --torch-backend cpu  take torch from its own index of CPU builds, whatever pip is set to
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import fresh

#: What fails in seconds first. Then neighbours stay together, so that a fixture of a file or a folder is made once.
#: The second part waits a quarter of its time, for daemons of a cluster above all: a third process fills two cores.
RUNS = (("-n", "2", "-m", "unit"), ("-n", "3", "-m", "not unit"))
#: The shelf as an installation has it, for the thousand processes that the tests start: parsing takes each a second.
KEEP = "from attn_doctor.recipes import compiled, kept; compiled.keep(kept.bundled_folder())"
#: All that is in site-packages by then. A file that does not compile, as some templates do not, is nobody's trouble.
COMPILE = "import compileall, sysconfig; compileall.compile_dir(sysconfig.get_path('platlib'), quiet=2)"
HOW = ("-n", "2", "--dist", "worksteal")
#: Linux's file system in memory. The tests write small files by the ten thousand, with fsync: on a slow disk the second
#: part waited for it a third of its time.
IN_MEMORY = Path("/dev/shm")
#: What they write is below 2 GiB; what has to be free there, and of the machine's memory beside it.
ROOM, MEMORY = 4 << 30, 8 << 30


def set_up(backend: str) -> Path:
    """The interpreter of .venv. Torch first and by itself: everything else is held to it."""
    folder = fresh.ROOT / ".venv"
    fresh.say(f"{folder}: torch for CPUs ({fresh.TORCH_SIZE}) and the tools of pyproject.toml's dev (about 150 MB)")
    python = fresh.environment(folder)
    fresh.install_torch(python, backend, compiled=False)
    held = folder / "constraints.txt"
    held.write_text(f"{fresh.TORCH}\n")
    # pip compiles with one processor: torch's files are compiled by the other one meanwhile.
    with subprocess.Popen([str(python), "-c", COMPILE]) as compiling:
        fresh.pip(python, "--constraint", str(held), fresh.X_TRANSFORMERS, "--editable", f"{fresh.ROOT}[dev]")
        compiling.wait()
    return python


@contextlib.contextmanager
def scratch() -> Iterator[dict[str, str]]:
    """The variables that let the tests write into memory, where there is enough; none where somebody chose a folder."""
    if os.environ.get("TMPDIR") or not _has_room(IN_MEMORY):
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="ad-", dir=IN_MEMORY, ignore_cleanup_errors=True) as folder:
        yield {"TMPDIR": folder}


def _has_room(folder: Path) -> bool:
    """True for a folder that programs can be started from, with room for the tests in it and in memory."""
    try:
        told = os.statvfs(folder)
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return False
    starts = not told.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK)
    return starts and told.f_bavail * told.f_frsize >= ROOM and free >= MEMORY


def main(words: list[str]) -> int:
    """Sets up and runs; the status is pytest's."""
    backend = "auto"
    if "--torch-backend" in words:
        at = words.index("--torch-backend")
        backend = (words[at + 1 : at + 2] or [""])[0]
        if backend not in ("auto", "cpu"):
            print("--torch-backend takes auto or cpu", file=sys.stderr)
            return 2
        del words[at : at + 2]
    try:
        python = set_up(backend)
    except subprocess.CalledProcessError:
        fresh.say("the environment could not be made (pip's own words are above)")
        fresh.say(
            "a torch for CPUs comes from the index that pip is set to, or with --torch-backend cpu from torch's own"
        )
        return 3
    if "--set-up-only" in words:
        return 0
    # As an installation has it: compiled once, not by each of the thousand processes that the tests start.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([str(python), "-c", KEEP], check=True, cwd=fresh.ROOT)
    for run in [tuple(words)] if words else RUNS:
        with scratch() as more:
            # pytest's own folder below it has a name of 25 characters more: sockets of the tests' Slurm may have 107.
            where = [f"--basetemp={more['TMPDIR']}/t"] if more else []
            command = [str(python), "-m", "pytest", *HOW, *where, *run]
            ended = subprocess.run(command, check=False, cwd=fresh.ROOT, env={**variables, **more})
        if ended.returncode:
            return ended.returncode
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
