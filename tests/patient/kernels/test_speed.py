"""What a kernel's time is held against."""

import pytest

torch = pytest.importorskip("torch")

from attn_doctor.patient.kernels import problems, speed  # noqa: E402
from attn_doctor.patient.kernels.cells import Cell  # noqa: E402

BATCH, HEADS, LENGTH, DIM = 1, 2, 64, 32


def problem(form="dense", direction="forward"):
    return problems.make_problem(Cell("sdpa-math", "bfloat16", DIM, form, direction), "cpu", 1, (BATCH, HEADS, LENGTH))


def test_flops():
    """Two products of scores; half of them where it is causal; the backward pass costs 2.5 times the forward one."""
    dense = 4 * BATCH * HEADS * LENGTH * LENGTH * DIM

    assert speed.flops(problem()) == dense
    assert speed.flops(problem("causal")) == pytest.approx(dense * (LENGTH + 1) / (2 * LENGTH))
    assert speed.flops(problem(direction="train")) == 3.5 * dense
    assert speed.flops(problem("bool-mask")) == dense  # a mask is no structure: everything is computed


def test_shares():
    """TFLOP/s and GB/s by the time that was measured, and their shares of this GPU's own ceilings."""
    made = problem(direction="train")
    ran = []

    def compute():
        ran.append(True)
        return made.q * made.k * made.v

    ceilings = {"matmul_bfloat16": speed.flops(made) / 1e9, "copy": 1.0}
    told = speed.measure(compute, made, ceilings, timed=lambda work, device: (work(), 2.0)[1])

    assert ran
    assert told["of_matmul"] == 0.5
    assert told["gbs"] == round(2 * 4 * BATCH * HEADS * LENGTH * DIM * 2 / 2.0 / 1e6, 1)
    assert told["ms"] == 2.0


def test_without_a_ceiling_there_is_no_share():
    """A dtype whose matrix product was not measured has no share."""
    assert speed.measure(lambda: None, problem(), {}, timed=lambda work, device: 1.0)["of_matmul"] is None
