"""Fourteen products of half and float32 operands: a GPU raises, fake tensors alone would let them pass.

Seen on an H200 with torch 2.11: of 477 cells of ops, dtypes and autocast these fourteen differed from fake tensors.
"""

from pathlib import Path

import pytest

from tests.patient.trace.test_on_gpu import CELLS

PRODUCTS = Path(__file__).parent / "products.py"
LENIENT = """
import importlib.util, torch
from torch._subclasses.fake_tensor import FakeTensorMode
spec = importlib.util.spec_from_file_location("products", {path!r})
products = importlib.util.module_from_spec(spec)
spec.loader.exec_module(products)
answer = []
with FakeTensorMode():
    for op in products.OPS:
        for dtypes in (("float16", "float32"), ("float32", "float16")):
            try:
                products.product(op, *dtypes)()
                answer.append([op, *dtypes])
            except Exception:
                pass
"""


@pytest.mark.parametrize(("op", "first", "second"), CELLS)
@pytest.mark.parametrize("rules", ["fake", "cpu"])
def test_refused(traced, op, first, second, rules):
    """Without autocast the trace ends there, with a message about dtypes, both operands' dtypes and the line."""
    answer = traced("product", file=PRODUCTS, op=op, first=first, second=second, rules=rules)

    assert answer["error"]["kind"] == "dtype mismatch", answer["error"]
    assert {one["dtype"] for one in answer["failure"]["operands"]} == {"float16", "float32"}
    assert answer["failure"]["at"]["source"].startswith(f'"{op}"')


@pytest.mark.parametrize(("op", "first", "second"), CELLS)
def test_autocast_takes_them(traced, op, first, second):
    """Under autocast each of them runs: it is on one of CUDA's lists."""
    answer = traced("product", file=PRODUCTS, op=op, first=first, second=second, rules="fake", autocast="float16")

    assert (answer["error"], answer["outcome"]) == (None, "finished")


def test_fake_tensors_are_lenient(traced):
    """What these cells are about: fake tensors by themselves refuse none of the products above (torch 2.13)."""
    passing = traced.run(LENIENT.format(path=str(PRODUCTS)))

    assert len(passing) >= 8, passing
