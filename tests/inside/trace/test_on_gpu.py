"""On a real GPU, with its real kernels: the verdicts that CUDA's rules on CPU tensors foretell."""

import pytest

from tests.inside.trace.conftest import culprit

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("factory", "autocast"),
    [("plain", None), ("gained", None), ("gained", "bfloat16"), ("buffered", None), ("multi_head", "float16")],
)
def test_prediction_holds(traced, factory, autocast):
    """Verdict, culprit and error text are what was said without a GPU."""
    real = traced(factory, autocast=autocast, rules="gpu")
    foretold = traced(factory, autocast=autocast, rules="cpu")

    assert real["rules"]["name"] == "gpu"
    assert real["verdict"] == foretold["verdict"]
    assert [c["error"] and c["error"]["message"] for c in real["attention"]] == [
        c["error"] and c["error"]["message"] for c in foretold["attention"]
    ]
    if foretold["promotions"]:
        assert culprit(real, "q")["line"] == culprit(foretold, "q")["line"]
