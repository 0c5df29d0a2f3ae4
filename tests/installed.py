"""Released packages, each installed in a folder of its own, once for all tests and all runs."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

#: Where they are kept; `ATTN_DOCTOR_TEST_PACKAGES` names another folder.
ROOT = Path(os.environ.get("ATTN_DOCTOR_TEST_PACKAGES") or Path(tempfile.gettempdir()) / "attn-doctor-test-packages")

SMALL = ("einops==0.8.2", "packaging")
TRITON = "triton==3.7.1"
#: What transformers needs beside its tokenizers and what the environment of the tests has: numpy, pyyaml and mcp's
#: httpx2 by pyproject.toml, filelock and fsspec by torch. To resolve and unpack those as well takes as long again.
_NEEDED = ("safetensors", "regex", "tqdm")
_OF_REQUESTS = ("requests", "urllib3", "certifi", "charset-normalizer", "idna")


def installed(*wanted: str, beside: Sequence[str] = (), deps: Sequence[str] = (), compiled: bool = True) -> Path:
    """A folder with these packages alone and those `beside` them, or with `deps` and what those need; skips where no
    registry is reached.

    Not `compiled`: what is imported is compiled then, sixty of the thousand modules of transformers.
    """
    name = "-".join(one.replace("==", "-") for one in wanted)
    folder = ROOT / f"{name}-cp{sys.version_info.major}{sys.version_info.minor}"
    if folder.exists():
        return folder
    ROOT.mkdir(parents=True, exist_ok=True)
    with (ROOT / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two workers may want it at once
        if not folder.exists():
            partial = folder.with_name(folder.name + f".part{os.getpid()}")
            install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                       *(() if compiled else ("--no-compile",)), "--target", str(partial)]  # fmt: skip
            for what in (["--no-deps", *wanted, *beside], deps):
                if what:
                    done = subprocess.run([*install, *what], capture_output=True, text=True, timeout=900)
                    if done.returncode:
                        pytest.skip(f"{name} could not be installed: {done.stderr[-300:]}")
            partial.rename(folder)
    return folder


def old_transformers() -> Path:
    """4.50.3, and what it needs."""
    needed = ("tokenizers==0.21.4", "huggingface-hub<1", *_OF_REQUESTS, *_NEEDED)
    return installed("transformers==4.50.3", beside=needed, compiled=False)


def new_transformers() -> Path:
    """5.23.0, and what it needs."""
    return installed("transformers==5.23.0", beside=("tokenizers", "huggingface-hub", *_NEEDED), compiled=False)


def flash_linear_attention(version: str) -> list[Path]:
    """Folders with that release, with the transformers of its time, and with a Triton."""
    beside = [installed(*SMALL), installed(TRITON)]
    own = installed(f"flash-linear-attention=={version}")
    if version == "0.6.0":
        return [own, installed("fla-core==0.6.0"), new_transformers(), *beside]
    return [own, old_transformers(), *beside]
