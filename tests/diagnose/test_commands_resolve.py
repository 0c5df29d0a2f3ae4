"""The commands for a package that is made for another torch, asked of the registry with --dry-run: torch stays."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attn_doctor.diagnose.cases import case_facts
from attn_doctor.diagnose.derived import derive
from attn_doctor.diagnose.judge import judge
from attn_doctor.model.facts import Fact, FactName, Known, Value
from attn_doctor.recipes.shelf import bundled

pytestmark = pytest.mark.registry

MISMATCHES = [
    ("xformers-torch-mismatch", "xformers", "0.0.32.post2", "==2.8.0", "2.9.1", "0.0.33.post2"),
    ("torchvision-torch-mismatch", "torchvision", "0.23.0", "==2.8.0", "2.9.1", "0.24.1"),
    ("torchvision-torch-mismatch", "torchvision", "0.26.0", "==2.11.0", "2.14.1", "0.29.2"),
]


def printed(python: Path, recipe: str, package: str, old: str, asks: str, torch: str, *, has_pip: bool) -> list[str]:
    """The recipe's first installation, for an environment with this package and this torch."""
    (written,) = [one for one in bundled() if one.id == recipe]
    more: dict[str, Value] = {
        "python.executable": str(python), "python.has_pip": has_pip, "python.uv": "uv",
        "torch.version": f"{torch}+cu128", "torch.cuda": "12.8", "package.torch.version": torch,
        f"package.{package}.version": old, f"package.{package}.requires_torch": asks,
    }  # fmt: skip
    facts = (Fact(name=FactName.parse(name), state=Known(value), how="a test") for name, value in more.items())
    (finding,) = judge(derive(case_facts(written.cases[0]).with_facts(facts)), [written]).findings
    commands = [text for remedy in finding.remedies for action in remedy.actions for text in action.commands]
    return shlex.split(next(one for one in commands if " install " in one))


def patient(folder: Path, **installed: str) -> Path:
    """An interpreter whose environment has nothing but the metadata of these packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name, version in installed.items():
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "RECORD").write_text("")
    return folder / "bin" / "python"


@pytest.mark.parametrize(("recipe", "package", "old", "asks", "torch", "new"), MISMATCHES)
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_torch_stays(
    tmp_path: Path, recipe: str, package: str, old: str, asks: str, torch: str, new: str, installer: str
) -> None:
    """What would be installed is the release for this torch, and nothing else."""
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    if installer == "uv" and not Path(uv).exists():
        pytest.skip("no uv here")
    python = patient(tmp_path / "env", torch=torch, triton="3.5.1", **{package: old})
    words = printed(python, recipe, package, old, asks, torch, has_pip=installer == "pip")
    if installer == "pip":
        report = tmp_path / "report.json"
        # The tests' own pip, for an environment that has none.
        line = [sys.executable, "-m", "pip", "--python", str(python), *words[3:]]
        subprocess.run([*line, "--dry-run", "--quiet", "--report", str(report)], check=True, capture_output=True)
        found = {
            (one["metadata"]["name"], one["metadata"]["version"]) for one in json.loads(report.read_text())["install"]
        }
    else:
        done = subprocess.run([uv, *words[1:], "--dry-run"], check=True, capture_output=True, text=True)
        found = set(re.findall(r"^ \+ ([\w.-]+)==(\S+)", done.stderr, re.MULTILINE))

    assert found == {(package, new)}
