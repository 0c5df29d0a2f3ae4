"""`with attn_doctor.watch():` in somebody's own program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

PROGRAM = """
import sys
import attn_doctor
assert not {{"torch", "rich", "typer", "pydantic"}} & set(sys.modules), "importing attn_doctor is not light"
import torch
import torch.nn.functional as F

linear = torch.nn.Linear(32, 96).bfloat16()
scale = torch.nn.Parameter(torch.ones(1))


def attend(x):
    q, k, v = linear(x)[:, None].chunk(3, -1)
    q = q * {scale}
    return F.scaled_dot_product_attention(q, k, v)


x = torch.randn(2, 8, 32).bfloat16()
with attn_doctor.watch({options}) as watching:
    try:
        attend(x)
    except RuntimeError as error:
        print("raised:", str(error)[:40])
print("told", len(watching.results), watching.trouble)
print("rich" in sys.modules, any(name.startswith("_attn_doctor_inside") for name in sys.modules))
"""


def run(tmp_path: Path, *, scale: str = "scale", options: str = "", **environment: str):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(scale=scale, options=options))
    root = str(Path(__file__).resolve().parents[2])
    return subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": root, **environment},
        timeout=120,
    )


def test_a_broken_call_is_told(tmp_path: Path) -> None:
    """The program gets its own exception; the path and the guilty line stand on stderr."""
    ended = run(tmp_path)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[:2] == ["raised: Expected query, key, and value to have t", "told 1 None"]
    assert "q = q * scale" in ended.stderr
    assert "bf16→fp32" in ended.stderr


def test_nothing_broken_is_silent(tmp_path: Path) -> None:
    """A sound program prints nothing more, and no terminal library is loaded."""
    ended = run(tmp_path, scale="scale.to(q.dtype)")

    assert (ended.stdout.splitlines(), ended.stderr) == (["told 0 None", "False True"], "")


@pytest.mark.parametrize(("options", "rank"), [("enabled=False", "0"), ("", "3")])
def test_off_costs_nothing(tmp_path: Path, options: str, rank: str) -> None:
    """Switched off, or on another rank than the first, not even the tracer is loaded."""
    ended = run(tmp_path, options=options, RANK=rank)

    assert ended.stdout.splitlines()[1:] == ["told 0 None", "False False"]
    assert ended.stderr == ""
