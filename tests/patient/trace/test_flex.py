"""FlexAttention runs under the tracer, and is judged as the torch that is there treats its dtypes."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.nn.attention.flex_attention")

FILE = Path(__file__).parent / "joined_models.py"
CASTS = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 11)


def test_it_runs(traced):
    """Forward it needs no GPU: nothing stands in for it, and the tracer is not in its way."""
    call = traced("flexible", file=FILE, cast=True, half=True)["attention"][0]

    assert (call["verdict"], call["stand_in"], call["needs_gpu"]) == ("clean", None, False)


@pytest.mark.parametrize(
    ("options", "now", "before"),
    [
        ({"autocast": "bfloat16"}, "promoted then repaired", "raises"),
        ({"autocast": "bfloat16", "cast": True}, "clean", "clean"),
        ({"half": True}, "silently mixed", "raises"),
        ({"half": True, "widen": "k"}, "promoted then repaired", "raises"),
    ],
)
def test_two_dtypes(traced, options, now, before):
    """From torch 2.11 on autocast casts, and without it the kernel casts k and v to q's dtype; before, it raises."""
    call = traced("flexible", file=FILE, **options)["attention"][0]

    assert call["verdict"] == (now if CASTS else before)
    assert (call["error"] is None) == (call["verdict"] != "raises")
