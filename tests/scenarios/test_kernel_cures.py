"""Cures of what `check --kernels` finds, as a person takes them. The GPU's answer alone is a stand-in: it is what an
H200 gave, and what it gives once torch takes cuDNN last."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from attn_doctor.formats import kernels_v1
from attn_doctor.machine.target import Target
from attn_doctor.model.kernels import KernelTrials
from attn_doctor.probe.kernels import trials
from tests.conftest import CHECKOUT, HAS_TORCH, make_environment, run_here

RECORDED = CHECKOUT / "tests/probe/h200-kernels.json"

Doctor = Callable[..., subprocess.CompletedProcess[str]]


def planted(target: Target, asked: trials.TrialRequest, *, form: str, helps: bool, **_: object) -> KernelTrials:
    """The answer of a GPU in place of one: kernels of `form` are wrong, and right where cuDNN is taken last, if that
    `helps`."""
    answer = json.loads(RECORDED.read_text())
    answer["cells"] = [one for one in answer["cells"] if one["backend"] == "sdpa-default"]
    for cell in answer["cells"]:
        if cell["form"] == form and cell["dtype"] == "bfloat16":
            cell.update(outcome="wrong", troubles=["error"], chosen="cudnn")
        if helps and os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") == "1" and cell.get("chosen") == "cudnn":
            cell.update(outcome="right", troubles=[], errors={}, chosen="efficient")
    return kernels_v1.from_json(answer)


H200 = (
    "--gpu", "h200", "--assume", "torch.version=2.11.0+cu130", "--assume", "torch.cuda=13.0",
    "--assume", "torch.cudnn=9.19.0", "--assume", "driver.version=580.95.05",
)  # fmt: skip


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    """The command line, with such a GPU."""
    make_environment(tmp_path / "patient")
    project = tmp_path / "project"
    project.mkdir()

    def run(*arguments: str, form: str = "none", helps: bool = True) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(trials, "run", functools.partial(planted, form=form, helps=helps))
        return run_here(*arguments, "--python", tmp_path / "patient", cwd=project)

    return run


def activated(tmp_path: Path) -> str:
    """What a shell has after activating the environment."""
    shell = f". {tmp_path}/patient/bin/activate; echo value=$TORCH_CUDNN_SDPA_DEPRIORITIZED"
    return subprocess.run(["/bin/bash", "-c", shell], capture_output=True, text=True, timeout=60).stdout.strip()


def test_cudnn_is_taken_last(tmp_path: Path, doctor: Doctor) -> None:
    """Found in a report, planned, carried out in what activation sources, proven by running kernels again, undone."""
    script = tmp_path / "patient/bin/activate"
    before = script.read_bytes()
    only = ("--only", "kernel-wrong-result", *H200)
    checked = doctor(
        "check",
        "--kernels",
        "quick",
        "--no-samples",
        "--output",
        f"{tmp_path}/r.json",
        "--json",
        *H200,
        form="bool-mask",
    )
    report = json.loads((tmp_path / "r.json").read_text())
    wrong = next(one for one in report["findings"] if one["id"] == "kernel-wrong-result")
    planned = doctor("fix", "--kernels", "quick", "--dry-run", "--unsafe-fixes", *only, form="bool-mask")
    fixed = doctor("fix", "--kernels", "quick", "--yes", "--unsafe-fixes", *only, form="bool-mask")
    after = activated(tmp_path)
    undone = doctor("undo")

    assert checked.returncode == 1, checked.stderr
    assert [one["id"] for one in wrong["remedies"]] == ["cudnn-sdpa-last", "without-cudnn-sdpa", "another-kernel"]
    assert "TORCH_CUDNN_SDPA_DEPRIORITIZED" in planned.stdout
    assert "Fixed, confirmed by a new check: kernel-wrong-result" in fixed.stdout, fixed.stdout + fixed.stderr
    assert after == "value=1"
    assert undone.returncode == 0, undone.stderr
    assert script.read_bytes() == before


def test_without_running_them_again_it_is_no_cure(tmp_path: Path, doctor: Doctor) -> None:
    """`fix` without --kernels does not know of a wrong kernel, and changes nothing for it."""
    fixed = doctor("fix", "--yes", "--unsafe-fixes", "--only", "kernel-wrong-result", *H200, form="bool-mask")

    assert "Fixed" not in fixed.stdout
    assert activated(tmp_path) == "value="


def test_a_cure_that_does_not_help_is_undone(tmp_path: Path, doctor: Doctor) -> None:
    """Still wrong after the change: every byte is back, and it is said."""
    script = tmp_path / "patient/bin/activate"
    before = script.read_bytes()
    fixed = doctor(
        "fix", "--kernels", "quick", "--yes", "--unsafe-fixes", "--only", "kernel-wrong-result", *H200,
        form="bool-mask", helps=False,
    )  # fmt: skip

    assert fixed.returncode == 4, fixed.stdout
    assert "still there" in fixed.stdout + fixed.stderr
    assert script.read_bytes() == before


@pytest.mark.parametrize(("arguments", "status"), [((), 0), (("--fail-on", "warning"), 1), (("--fail-on", "error"), 0)])
def test_a_wrong_cell_that_training_may_never_use(doctor: Doctor, arguments: tuple[str, ...], status: int) -> None:
    """The float32 mask on stock torch: a warning that names the exact condition, an error where that was asked for."""
    done = doctor("check", "--kernels", "quick", "--no-samples", "--only", "kernels", *H200, *arguments)
    text = " ".join(done.stdout.split())

    assert done.returncode == status, done.stderr
    assert "! kernel-wrong-result" in text
    assert "bf16 or fp16 q, k and v, a float32 mask, head dims" in text


@pytest.mark.parametrize(
    ("gate", "status", "severity"),
    [
        ('id = "kernel-wrong-result"', 1, "error"),
        ('id = "kernel-wrong-result"\nsubject = "cell sdpa-*-fp32-mask-*"', 1, "error"),
        ('id = "kernel-wrong-result"\nsubject = "cell flash-attn-2-*"', 0, "warning"),
        ('id = "kernel-crashes"', 0, "warning"),
    ],
)
def test_a_policy_file_makes_it_an_error(
    tmp_path: Path,
    doctor: Doctor,
    gate: str,
    status: int,
    severity: str,
) -> None:
    """Where a site's policy names it, and that trouble alone; the report says whose word it is."""
    policy = tmp_path / "policy.toml"
    policy.write_text(f'[[gate]]\nreason = "our models pass float32 masks"\n{gate}\n')
    done = doctor("check", "--kernels", "quick", "--no-samples", "-v", *H200, "--accept", str(policy))
    text = " ".join(done.stdout.split())

    assert done.returncode == status, done.stderr
    assert f"[{severity}] sdpa-cudnn-float-mask" in text  # it hangs under its cause, which is as bad
    assert ("An error by the policy of this site: our models pass float32 masks." in text) is (status == 1)


MODEL = """import torch
from torch.nn.functional import scaled_dot_product_attention


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q = torch.nn.Linear(64, 64)

    def forward(self, x):
        q = self.q(x).view(1, 16, 1, 64).transpose(1, 2)
        mask = torch.triu(torch.full((16, 16), -10.0), diagonal=1)
        return scaled_dot_product_attention(q, q, q, attn_mask=mask)


def factory():
    return Attention().to(torch.bfloat16), (torch.randn(1, 16, 64, dtype=torch.bfloat16),)
"""


@pytest.mark.skipif(not HAS_TORCH, reason="the Python that runs the tests has no torch")
def test_a_trace_that_reaches_it_is_an_error_and_is_mended(tmp_path: Path) -> None:
    """The same float32 mask in a person's own model is an error at its line; cast there the trace is clean; undone."""
    project = tmp_path / "model"
    project.mkdir()
    (project / "model.py").write_text(MODEL)
    make_environment(tmp_path / "patient", torch=True)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return run_here(*arguments, "--python", tmp_path / "patient", cwd=project)

    traced = run("trace", "model.py:factory", "--gpu", "h200")
    fixed = run(
        "fix", "--trace", "model.py:factory", "--gpu", "h200", "--yes", "--unsafe-fixes", "--only", "attn-mask-dtype"
    )
    after = (project / "model.py").read_text()
    again = run("trace", "model.py:factory", "--gpu", "h200")
    undone = run("undo")

    assert traced.returncode == 1, traced.stdout
    assert "attn-mask-dtype" in traced.stdout
    assert "model.py:13" in traced.stdout
    assert (fixed.returncode, fixed.stderr) == (0, ""), fixed.stdout
    assert "attn_mask=(mask.to(q.dtype) if mask is not None and mask.is_floating_point() else mask))" in after
    assert again.returncode == 0, again.stdout
    assert (undone.returncode, (project / "model.py").read_text()) == (0, MODEL)
