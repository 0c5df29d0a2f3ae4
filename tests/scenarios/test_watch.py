"""`with attn_doctor.watch():` in somebody's own program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm import nursery

pytest.importorskip("torch")

LIGHT = """
import sys
import attn_doctor
assert not {"torch", "rich", "typer", "pydantic"} & set(sys.modules), "importing attn_doctor is not light"
"""
PROGRAM = """
import sys
import attn_doctor
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
print("rich" in sys.modules, any(name.startswith("_attn_doctor_patient") for name in sys.modules))
"""

SURROUNDINGS = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


def run(tmp_path: Path, *, scale: str = "scale", options: str = "", **environment: str):
    """The program, forked where torch is imported."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(scale=scale, options=options))
    return nursery("torch").run([program], env={**SURROUNDINGS, **environment}, cwd=tmp_path, timeout=120)


def test_a_broken_call_is_told(tmp_path: Path) -> None:
    """The program gets its own exception; the path and the guilty line stand on stderr. Importing is light."""
    program = tmp_path / "program.py"
    program.write_text(LIGHT + PROGRAM.format(scale="scale", options=""))
    ended = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, env=SURROUNDINGS, timeout=120
    )

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


def told_by(tmp_path: Path, body: str) -> tuple[str, str]:
    """What a program of that body, after the definitions of PROGRAM, says on stdout and on stderr."""
    head = PROGRAM.format(scale="scale", options="").split("x = torch.randn")[0]
    (tmp_path / "own.py").write_text(f"{head}x = torch.randn(2, 8, 32).bfloat16()\n{body}")
    ended = nursery("torch").run([tmp_path / "own.py"], env=SURROUNDINGS, cwd=tmp_path, timeout=300)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout, ended.stderr


def test_a_function_is_watched_at_each_call(tmp_path: Path) -> None:
    """As a decorator: its answer and its exception are the program's, and each call is watched."""
    said, told = told_by(
        tmp_path,
        """
@attn_doctor.watch()
def step(x, *, kind):
    "One step."
    return attend(x) if kind == "broken" else kind

print(step(x, kind="fine"), step.__name__, step.__doc__)
for _ in range(2):
    try:
        step(x, kind="broken")
    except RuntimeError:
        print("raised")
""",
    )

    assert said.split("\n") == ["fine step One step.", "raised", "raised", ""]
    assert told.count("raises  scaled_dot_product_attention") == 2


def test_another_thread_is_said_to_be_one(tmp_path: Path) -> None:
    """A call in a thread that nobody watches is told without its path, and why it has none."""
    _, told = told_by(
        tmp_path,
        """
import threading

def quietly():
    try:
        attend(x)
    except RuntimeError:
        pass

with attn_doctor.watch():
    thread = threading.Thread(target=quietly)
    thread.start()
    thread.join()
""",
    )

    assert "raises  scaled_dot_product_attention" in told
    assert "another thread than the one that watches" in " ".join(told.split())


def test_a_model_that_is_compiled_meanwhile(tmp_path: Path) -> None:
    """torch.compile takes none of the tracer's functions for the program's: it says nothing of them."""
    said, told = told_by(
        tmp_path,
        """
import logging
from torch._dynamo.utils import counters

def fine(x):
    q, k, v = linear(x)[:, None].chunk(3, -1)
    return F.scaled_dot_product_attention(q, k, v)

import torch._dynamo.convert_frame as frames
compiled = []
whole = frames._compile
def noted(code, *args, **kwargs):
    compiled.append(code.co_filename)
    return whole(code, *args, **kwargs)
del sys.modules["torch._dynamo"]  # as if nobody had imported it: torch.compile does so below
with attn_doctor.watch():
    sys.modules["torch._dynamo"] = torch._dynamo
    frames._compile = noted
    print(torch.compile(fine, backend="eager")(x).dtype)
print([name for name in compiled if "attn_doctor" in name])
""",
    )

    assert said.split("\n") == ["torch.bfloat16", "[]", ""]
    assert "recompile" not in told
