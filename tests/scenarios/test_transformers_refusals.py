"""What several releases of transformers really say when FlashAttention cannot be had is explained right.

flash-attn itself is a stand-in of nothing but a version: it is asked for before a GPU would be.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from attn_doctor.diagnose.log.causes import explain_text
from attn_doctor.model.facts import FactSet
from attn_doctor.model.findings import Severity
from attn_doctor.recipes import shelf
from tests.conftest import clean_environment, needs_torch

pytestmark = [pytest.mark.registry, pytest.mark.heavy, needs_torch]
RECIPES = shelf.bundled()

SCRIPT = """
import sys
from transformers import AutoModelForCausalLM, LlamaConfig
config = LlamaConfig(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=64)
AutoModelForCausalLM.from_config(config, attn_implementation=sys.argv[1])
"""


@pytest.fixture(scope="session")
def releases() -> dict[str, Path]:
    """Folders with a transformers each and what it needs, kept between runs."""
    root = Path(
        os.environ.get("ATTN_DOCTOR_TEST_PACKAGES") or Path(tempfile.gettempdir()) / "attn-doctor-test-packages"
    )
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    found = {}
    for version in ("4.36.2", "4.44.2", "5.23.0"):
        folder = root / f"transformers-{version}-whole-{tag}"
        if not folder.exists():
            partial = folder.with_name(f"{folder.name}.part{os.getpid()}")
            line = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
            numpy = "numpy<2" if version.startswith("4.") else "numpy"
            done = subprocess.run(
                [*line, "--target", str(partial), f"transformers=={version}", numpy],
                capture_output=True, text=True, timeout=900,
            )  # fmt: skip
            if done.returncode:
                pytest.skip(f"transformers {version} could not be installed: {done.stderr[-300:]}")
            partial.rename(folder)
        found[version] = folder
    return found


@pytest.mark.parametrize(
    ("release", "flash_attn", "asked", "cause"),
    [
        ("4.36.2", "", "flash_attention_2", "flash-attn-not-installed"),
        ("4.44.2", "", "flash_attention_2", "flash-attn-not-installed"),
        ("5.23.0", "", "flash_attention_2", "flash-attn-not-installed"),
        ("5.23.0", "", "flash_attention_3", "flash-attn-3-not-installed"),
        ("4.44.2", "", "flash_attention_3", "model-restricts-backend-or-dtype"),
        ("5.23.0", "", "kernels-community/flash-attn", "version-or-api-mismatch"),
        ("5.23.0", "1.0.9", "flash_attention_2", "flash-attn-version-outside-consumer-range"),
        ("5.23.0", "2.8.3", "flash_attention_2", "no-cuda-device-visible"),
        ("4.36.2", "2.8.3", "flash_attention_2", "fp32-model-without-autocast"),
        ("4.44.2", "2.8.3", "flash_attention_2", "harmless-dtype-warning"),
    ],
)
def test_refusals(
    releases: dict[str, Path], tmp_path: Path, release: str, flash_attn: str, asked: str, cause: str
) -> None:
    """Not installed, too old, no GPU, wrong dtype; the last is a notice only, and the model is made."""
    if flash_attn:
        metadata = f"Metadata-Version: 2.1\nName: flash_attn\nVersion: {flash_attn}\n"
        for name, text in (
            ("flash_attn/__init__.py", f"__version__ = {flash_attn!r}\n"),
            (f"flash_attn-{flash_attn}.dist-info/METADATA", metadata),
            (f"flash_attn-{flash_attn}.dist-info/RECORD", "flash_attn/__init__.py,,\n"),
        ):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, asked],
        capture_output=True, text=True, timeout=300, cwd=tmp_path,
        env=clean_environment(PYTHONPATH=os.pathsep.join((str(tmp_path), str(releases[release])))),
    )  # fmt: skip
    findings = explain_text(run.stdout + run.stderr, RECIPES, FactSet()).diagnosis.findings

    assert findings, run.stderr[-1000:]
    assert findings[0].id == cause
    assert (run.returncode == 0) == (findings[0].severity is Severity.INFO)
