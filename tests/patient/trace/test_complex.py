"""Provenance through complex numbers, and in a forward that runs a second time during the backward pass."""

from pathlib import Path

import pytest

from tests.patient.trace import complex_models
from tests.patient.trace.conftest import culprit, operand

FILE = Path(complex_models.__file__)


def line_of(comment):
    lines = FILE.read_text().splitlines()
    return next(i for i, text in enumerate(lines, 1) if text.rstrip().endswith("# " + comment))


CASES = [
    # rotation, half, what promoted, where it is real again
    ("as_complex", "bfloat16", "widens", "real again"),
    ("as_complex", "float16", "widens", "real again"),
    ("by_bits", "bfloat16", "widens by bits", "real again by bits"),
    ("by_parts", "bfloat16", "widens parts", None),
    ("by_euler", "float16", "complex32 times complex64", "complex32 times complex64"),
]


@pytest.mark.parametrize(("rotation", "half", "promoted", "back"), CASES)
def test_the_line_that_widened_and_the_line_that_did_not_cast_back(traced, rotation, half, promoted, back):
    answer = traced("rotated", file=FILE, rotation=rotation, half=half)
    found = culprit(answer, "q")

    assert answer["verdict"] == "raises"
    assert found["line"] == line_of(promoted)
    assert found["dtype_in"] in (half, "complex32")
    if back is not None:
        assert (found["cast_back"]["line"], found["cast_back"]["to"]) == (line_of(back), half)
    assert answer["counterfactual"]["clean_after"] is not None, answer["counterfactual"]


@pytest.mark.parametrize("rotation", sorted(complex_models.ROTATIONS))
def test_clean_twin(traced, rotation):
    answer = traced("rotated", file=FILE, rotation=rotation, half="float16", cast_back=True)

    assert (answer["verdict"], answer["promotions"]) == ("clean", [])


def test_a_wide_table_is_named(traced):
    """complex32 times a complex64 buffer: mixed operands, from the buffer."""
    found = culprit(traced("rotated", file=FILE, rotation="by_euler", half="float16"), "q")

    assert (found["kind"], found["dtype_out"]) == ("mixed operands", "complex64")
    assert [birth["name"] for birth in found["born"]] == ["cis"]


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_forward(traced, reentrant):
    """Under autocast the call is repaired; the second forward names the same line as the first."""
    answer = traced("rotated", file=FILE, half="float32", checkpointed=reentrant, autocast="bfloat16", backward=True)

    assert [(call["verdict"], call["backward"]) for call in answer["attention"]] == [
        ("promoted then repaired", False),
        ("promoted then repaired", True),
    ]
    assert [(p["line"], p["function"]) for p in answer["promotions"]] == [(line_of("widens"), "as_complex")]
    assert operand(answer, "q", 0)["promotion"] == operand(answer, "q", 1)["promotion"] == 0


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_clean_twin(traced, reentrant):
    """That torch leaves the second forward early is no failure of the call it leaves from."""
    answer = traced("rotated", file=FILE, checkpointed=reentrant, cast_back=True, backward=True)

    assert (answer["outcome"], answer["verdict"], answer["error"]) == ("finished", "clean", None)
    assert {call["backward"] for call in answer["attention"]} == {True, False}


BORROWED = """
import torch
from torch import nn


class Borrowing(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.v, self.out = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        q = self.q(x).float()
        v = self.v(x).to(q)
        return self.out(v)


def build():
    return Borrowing().bfloat16(), (torch.randn(2, 8).bfloat16(),)
"""


def test_a_borrowed_dtype(traced, tmp_path):
    """x.to(other) takes the dtype of another tensor: what made that one wide is where it was born."""
    path = tmp_path / "borrowed.py"
    path.write_text(BORROWED)
    answer = traced("build", file=str(path))
    (wide,) = [one for one in answer["failure"]["operands"] if one["dtype"] == "float32"]

    assert wide["promotion"]["source"] == "v = self.v(x).to(q)"
    assert wide["born"][0]["at"]["source"] == "q = self.q(x).float()"
