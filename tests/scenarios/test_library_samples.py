"""Bugs of installed versions, found by what a tiny model of each library does and not by its number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Doctor, Environment, Run, make_environment, needs_torch
from tests.installed import SMALL, flash_linear_attention, installed

pytestmark = needs_torch

#: q is multiplied up to float32 by a buffer that stays so beside half weights; {} is the class it defines first.
PROMOTES = """
import torch.nn.functional as F
import torch
from torch import nn

class Encoder(nn.Module):
    def __init__(self, *, dim, depth, heads, attn_flash, rotary_pos_emb=False, rotary_xpos=False):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.register_buffer("inv_freq", torch.ones(1))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        q = q * self.inv_freq
        return F.scaled_dot_product_attention(q, k, v)

Decoder = Encoder
"""
BUFFER = "x-transformers-rotary-fp32-buffer"


@pytest.fixture
def planted(environment: Callable[..., Environment]) -> Environment:
    """x-transformers of a version that no recipe knows, with a bug of its own."""
    env = environment(torch=True)
    env.package("x-transformers", "99.0", PROMOTES)
    return env


def test_a_version_that_nobody_knows(doctor: Doctor, planted: Environment) -> None:
    """A new release with a new bug is found by what it does, at its line and with its buffer."""
    run = doctor.check(planted)
    finding = run.findings["fp32-promoted-before-kernel"]
    lines = [PROMOTES.splitlines()[place["line"] - 1].strip() for place in finding["locations"]]

    assert finding["severity"] == "error"
    assert {Path(place["file"]) for place in finding["locations"]} == {planted.site / "x_transformers" / "__init__.py"}
    # The line that promotes, then the call before which a cast back is missing.
    assert lines == ["q = q * self.inv_freq", "return F.scaled_dot_product_attention(q, k, v)"]
    assert run.fact(f"sample.{BUFFER}.verdict") == "raises"
    assert run.fact(f"sample.{BUFFER}.library") == "x_transformers"
    assert run.fact(f"promotion.{BUFFER}-0.operand") == "buffer inv_freq"
    assert run.fact(f"promotion.{BUFFER}-0.sample") == BUFFER
    assert run.fact(f"attention.{BUFFER}-0.q_dtype") == "float32"


def test_what_repairs_itself_is_no_trouble(doctor: Doctor, planted: Environment) -> None:
    """Under autocast SDPA casts back: the sample says so, and no finding stands on it."""
    run = doctor.check(planted)
    subjects = run.findings["fp32-promoted-before-kernel"]["subjects"]

    assert run.fact("sample.x-transformers-rotary-autocast.verdict") == "promoted then repaired"
    assert run.fact("sample.x-transformers-rotary-autocast.outcome") == "ran"
    assert subjects == [f"promotion {BUFFER}-0"]


def test_a_library_that_cannot_be_sampled(doctor: Doctor, environment: Callable[..., Environment]) -> None:
    """A package that does not import is one finding; its samples are one open question and no second error."""
    env = environment(torch=True)
    env.package("flash-linear-attention", "0.9", "raise ImportError('not for this torch')", imports="fla")
    run = doctor.check(env)

    assert "import-fails" in run.findings
    assert not {"fp32-promoted-before-kernel", "sample-fails"} & run.findings.keys()
    assert run.fact("sample.fla.outcome").startswith("(unknown) not run: ")
    assert "not for this torch" in run.fact("sample.fla.outcome")
    assert run.fact("listed.promotion").startswith("(unknown) not run: fla: ")
    assert [name for name in run.report["facts"] if name.startswith("sample.fla-")] == []


def test_no_library(doctor: Doctor, environment: Callable[..., Environment]) -> None:
    """With nothing installed that has samples there is nothing to find, and nothing open about it."""
    run = doctor.check(environment(torch=True))

    assert run.fact("listed.promotion") == 0
    assert run.fact("listed.attention") == 0
    assert "fp32-promoted-before-kernel" in run.report["cleared"]


def test_quick_runs_none(doctor: Doctor, planted: Environment) -> None:
    """--quick leaves samples unasked, which clears nothing."""
    run = doctor.check(planted, "--quick")

    assert run.fact("listed.promotion").startswith("(unknown) not asked for")
    assert "fp32-promoted-before-kernel" in run.report["not_asked"]


def _real(folder: Path, *installed: Path) -> Environment:
    env = make_environment(folder / "environment", torch=True)
    (env.site / "installed.pth").write_text("".join(f"{path}\n" for path in installed))
    return env


def _verdicts(run: Run, *names: str) -> list[object]:
    return [run.fact(f"sample.{name}.verdict") for name in names]


ROTARY = ("x-transformers-xpos", BUFFER, "x-transformers-rotary-autocast")


@pytest.mark.registry
@pytest.mark.parametrize(
    ("version", "verdicts"),
    [("1.30.1", ["raises", "raises", "promoted then repaired"]), ("1.30.2", ["clean", "clean", "clean"])],
)
def test_x_transformers(doctor: Doctor, tmp_path: Path, version: str, verdicts: list[str]) -> None:
    """1.30.1's multiplication in apply_rotary_pos_emb is named with its line; 1.30.2 is clean."""
    run = doctor.check(_real(tmp_path, installed(f"x-transformers=={version}"), installed(*SMALL)))

    assert _verdicts(run, *ROTARY) == verdicts
    assert ("fp32-promoted-before-kernel" in run.findings) == ("raises" in verdicts)
    if "raises" in verdicts:
        assert run.fact(f"promotion.{ROTARY[0]}-0.place").endswith("x_transformers.py:480")
        assert "buffer rotary_pos_emb.inv_freq (float32)" in run.fact(f"promotion.{BUFFER}-0.born")


HALVES = ("fla-rwkv7-bfloat16", "fla-rwkv7-float16")


@pytest.mark.registry
@pytest.mark.triton
@pytest.mark.parametrize(
    ("version", "outcome", "verdict", "line"),
    [
        pytest.param("0.1.2", "raised", "raises", 179, marks=pytest.mark.heavy),
        pytest.param("0.2.1", "ran", "silently mixed", 242, marks=pytest.mark.heavy),
        pytest.param("0.2.2", "ran", "clean", None, marks=pytest.mark.heavy),
        ("0.6.0", "ran", "clean", None),
    ],
)
def test_rwkv7(doctor: Doctor, tmp_path: Path, version: str, outcome: str, verdict: str, line: int | None) -> None:
    """flash-linear-attention's RWKV-7 in both halves: addcmul with k_a is named at its line until 0.2.2."""
    run = doctor.check(_real(tmp_path, *flash_linear_attention(version)), "--timeout", 120)

    assert [run.fact(f"sample.{name}.outcome") for name in HALVES] == [outcome] * 2
    assert _verdicts(run, *HALVES) == [verdict] * 2
    for name in HALVES if line else ():
        assert run.fact(f"promotion.{name}-0.call") == "Tensor.addcmul"
        assert run.fact(f"promotion.{name}-0.place").endswith(f"rwkv7.py:{line}")
        assert "k_a" in run.fact(f"promotion.{name}-0.born")
    assert _verdicts(run, "fla-gla-bfloat16", "fla-gsa-float16") == ["clean"] * 2
    assert run.fact("sample.transformers-llama-sdpa-bfloat16.verdict") == "clean"
    assert run.fact("triton.canary") == "compiled"


@pytest.mark.registry
@pytest.mark.triton
@pytest.mark.parametrize(
    ("version", "becomes_i16"),
    [
        *(pytest.param(version, True, marks=pytest.mark.heavy) for version in ("2.1.0", "2.2.0")),
        ("2.3.1", True),
        pytest.param("3.0.0", False, marks=pytest.mark.heavy),
        ("3.7.1", False),
    ],
)
def test_canary(doctor: Doctor, tmp_path: Path, version: str, becomes_i16: bool) -> None:
    """A transposed bf16 tile stops Triton up to 2.3.1, as `check` sees it; 3.0.0 and later compile it."""
    run = doctor.check(_real(tmp_path, installed(f"triton=={version}")))

    assert run.fact("triton.bf16_becomes_i16") is becomes_i16
    assert (run.fact("triton.canary") == "compiled") is not becomes_i16
