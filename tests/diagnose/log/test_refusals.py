"""Who refuses, and by what a size divides."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.diagnose.log.refusals import divides_by, refuser
from attn_doctor.workflows.explain import ExplainRequest, explain

ENV = "/opt/conda/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("message", "files", "owners", "expected"),
    [
        ("ValueError: no", [f"{ENV}/vllm/engine/core.py"], ["vllm"], "vllm"),
        ("ValueError: no", [f"{ENV}/mamba_ssm/ops/scan.py"], ["torch", "mamba_ssm"], "mamba-ssm"),
        # A server only calls what refuses; a checkout's file is known by its name.
        ("ValueError: no", ["/home/u/mochi/joint.py"], ["torch"], "The code in joint.py"),
        ("ValueError: no", [f"{ENV}/gradio/queueing.py"], ["gradio"], "The code in queueing.py"),
        # A message that names its program needs no frame.
        ("RuntimeError: Unsloth: no such rank", [], [], "Unsloth"),
        ("It is not supported in your current Unsloth version!", [], [], "Unsloth"),
        ("ValueError: Invalid: no", [], [], None),
        ("ValueError: Shape: no", [], [], None),
        ("It is not supported in your current Python version", [], [], None),
        ("ValueError: no", [], [], None),
    ],
)
def test_who_refuses(message: str, files: list[str], owners: list[str], expected: str | None) -> None:
    assert refuser(message, files, owners) == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "Visual sequence length (14310) must be divisible by cp_size (4).",
            "14310 is divided by 2, 3, 5, 6, 9, 10, 15, 18, 27, 30; 4 divides 14308 and 14312",
        ),
        (
            "hidden size must be a multiple of 8, but got 100",
            "100 is divided by 2, 4, 5, 10, 20, 25, 50, 100; 8 divides 96 and 104",
        ),
        ("can't divide axis of length 10 in chunks of 7", "10 is divided by 2, 5, 10; 7 divides 7 and 14"),
        ("length 3 must be divisible by 8", "3 is divided by 3; 8 divides 8 and 16"),
        # It divides: the message means something else by its numbers.
        ("size 16 is divisible by 8", None),
        ("the size must be divisible by cp_size", None),
        ("length 16 must be divisible by 1", None),
    ],
)
def test_what_divides(message: str, expected: str | None) -> None:
    assert divides_by(message) == expected


@pytest.mark.parametrize(
    ("message", "found", "unknown"),
    [
        ("ValueError: CPU backend only supports V1.", "package-does-not-support", ""),
        ("ValueError: moonshine 7", "exception-nobody-knows", "ValueError: moonshine 7"),
    ],
)
def test_what_a_finding_quotes_is_not_called_unknown_as_well(
    tmp_path: Path, message: str, found: str, unknown: str
) -> None:
    log = tmp_path / "a.log"
    log.write_text(
        f'Traceback (most recent call last):\n  File "{ENV}/vllm/core.py", line 3, in f\n    raise\n{message}\n'
    )
    report = explain(ExplainRequest(logs=(str(log),)))
    assert [one.id for one in report.diagnosis.findings if not one.by_words] == [found]
    assert report.logs[0].unknown == unknown
