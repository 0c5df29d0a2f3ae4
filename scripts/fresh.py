"""What a fresh machine needs for the two set-up commands: environments, and a torch that brings nothing of CUDA.

Standard library alone: it runs before anything is installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
X_TRANSFORMERS = "x-transformers==1.30.1"
#: Torch's own index of CPU builds: https://pytorch.org/get-started/locally/
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
TORCH_SIZE = "about 200 MB, 700 MB unpacked"


def say(words: str) -> None:
    """One line about what happens next, on standard error: standard output is the report's."""
    print(f"-- {words}", file=sys.stderr, flush=True)


def environment(folder: Path, *, system: bool = False) -> Path:
    """The interpreter of a virtual environment, which is made unless it is there. `system`: it sees this Python's
    packages.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        say(f"making {folder}")
        flags = ["--system-site-packages"] if system else []
        subprocess.run([sys.executable, "-m", "venv", *flags, str(folder)], check=True)
    return python


def pip(python: Path, *words: str) -> None:
    """Installs; raises CalledProcessError when pip refuses."""
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words], check=True)


def installed(python: Path, module: str) -> bool:
    """Whether that interpreter finds the module; nothing of it is imported."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    return subprocess.run([str(python), "-c", code], check=False).returncode == 0


def brings_cuda(report: str) -> bool:
    """Whether pip's report of a dry run says that the torch it would take requires packages of CUDA."""
    (torch,) = (one for one in json.loads(report)["install"] if one["metadata"]["name"] == "torch")
    required = torch["metadata"].get("requires_dist") or []
    return any(one.lower().startswith(("nvidia-", "cuda-")) for one in required)


def torch_source(python: Path, backend: str = "auto") -> list[str]:
    """Options of pip for a torch without CUDA: none where pip is configured to give one, else torch's own index."""
    if backend == "cpu":
        return ["--index-url", CPU_INDEX]
    asked = subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run", "--no-deps",
         "--ignore-installed", "--report", "-", TORCH],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    configured = asked.returncode == 0 and not brings_cuda(asked.stdout)
    return [] if configured else ["--index-url", CPU_INDEX]


def install_torch(python: Path, backend: str = "auto", *, compiled: bool = True) -> None:
    """Installs torch for CPUs, unless one is there. `compiled`: its files too, by pip, with one processor."""
    if installed(python, "torch"):
        return
    source = torch_source(python, backend)
    say(f"downloading {TORCH} for CPUs ({TORCH_SIZE}) from {source[1] if source else 'the index that pip is set to'}")
    pip(python, *source, *([] if compiled else ["--no-compile"]), TORCH)


def cache() -> Path:
    """The folder that keeps what the set-up makes outside of the checkout."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(given) if given.startswith("/") else Path.home() / ".cache") / "attn-doctor"
