"""`check --kernels` and `--explain-sdpa` as a person without a GPU meets them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.conftest import run_here


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_here("check", *arguments)


@pytest.fixture(scope="module", autouse=True)
def no_gpu() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")


def test_without_a_gpu_it_says_what_would_run() -> None:
    """Nothing ran, which is said; what would run on the GPU that was named is predicted, and a question stays open."""
    done = run("--kernels", "quick", "--gpu", "h100", "--no-samples", "--only", "kernels", "--json")
    report = json.loads(done.stdout)
    kernels = report["kernels"]

    assert kernels["ran"] is False
    assert kernels["cells"] == []
    assert kernels["why_not"]
    assert {one["backend"] for one in kernels["would_run"]} >= {"sdpa-default", "sdpa-cudnn"}
    assert {one["recipe"] for one in report["open_questions"]} >= {"kernel-wrong-result"}
    assert report["findings"] == []


def test_the_text_claims_nothing() -> None:
    """The text says that nothing ran, and holds no mark of a kernel that is right."""
    done = run("--kernels", "full", "--gpu", "h100", "--no-samples", "--only", "kernels")

    assert "No kernel was run" in done.stdout
    assert "predicted and not run" in done.stdout
    assert "✓" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--kernels", "quick", "--backend", "sdpa-flsh"), "Did you mean"),
        (("--kernels", "quick", "--dtype", "bf17"), "Give bf16"),
        (("--kernels", "quick", "--quick"), "Leave out one"),
        (
            ("--kernels", "quick", "--kernels-budget", "inf"),
            "that is no value of --kernels-budget",
        ),  # JSON has no such number
        (("--backend", "flex"), "Add --kernels"),
        (("--seed", "0"), "Add --kernels"),
        (("--explain-sdpa", "q=1x2x3:bf16"), "four numbers"),
        *(
            (("--explain-sdpa", "q=1x2x64x64:bf16", "--gpu", "h100", *more), f"{more[0]}\n")
            for more in (
                ("--kernels", "quick"),
                ("--strict",),
                ("--fail-on", "info"),
                ("--exit-zero",),
                ("--config", "x"),
            )
        ),
        (("--explain-sdpa", "q=1x2x64x64:bf16", "--gpu", "h100", "--format", "ndjson"), "One of text, json."),
    ],
)
def test_bad_input(arguments: tuple[str, ...], words: str) -> None:
    """One clear message, status 2, nothing on standard output."""
    done = run(*arguments)

    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_explain_sdpa_for_a_gpu_that_is_not_there() -> None:
    """The choice, each refusal in torch's words, and how to get flash."""
    done = run("--explain-sdpa", "q=2x32x4096x128:bf16 mask=bool train", "--gpu", "a100")

    assert done.returncode == 0, done.stderr
    assert "predicted for" in done.stdout
    assert "Flash Attention does not support non-null attn_mask." in " ".join(done.stdout.split())
    assert "to get flash: pass no attn_mask" in done.stdout


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_explain_sdpa_into_a_file(tmp_path: Path, form: tuple[str, ...]) -> None:
    """The same as on standard output, and nothing there."""
    asked = ("--explain-sdpa", "q=2x32x4096x128:bf16", "--gpu", "a100", *form)
    printed, written = run(*asked), run(*asked, "--output", str(tmp_path / "told"))

    assert (printed.returncode, written.returncode, written.stdout) == (0, 0, "")
    assert (tmp_path / "told").read_text() == printed.stdout


def test_a_gpu_that_is_named_by_its_capability() -> None:
    """It is not given a second name."""
    done = run("--explain-sdpa", "q=1x2x64x64:bf16", "--gpu", "9.0")

    assert "predicted for compute capability 9.0, torch" in done.stdout


def test_fp8_alone() -> None:
    """Few kernels take it: those that would not run are told, and the examination does not end for want of one."""
    done = run("--kernels", "quick", "--gpu", "h100", "--dtype", "fp8", "--no-samples", "--only", "kernels")

    assert "SDPA flash: would run nothing" in done.stdout
    assert "scaled_dot_product_attention takes no float8" in done.stdout


def test_explain_sdpa_without_a_gpu_and_without_a_name() -> None:
    """Nothing is made up: it could not ask, and says how to have it predicted."""
    done = run("--explain-sdpa", "q=1x2x64x64:bf16")

    assert done.returncode == 3
    assert "--gpu h100" in done.stderr
