"""A failed attention call is claimed for errors over dtypes alone, and only where mended dtypes come past it."""

from pathlib import Path

import pytest

from tests.patient.trace import erring_models

FILE = Path(erring_models.__file__)


@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        ("wrong_view_after", "clean", "shape '[3, 5]' is invalid"),
        ("wrong_view_before", None, "shape '[1, 1, 7]' is invalid"),
        ("wrong_index", None, "index 99 is out of bounds"),
        ("wrong_length", None, ""),
        ("out_of_memory", None, "CUDA out of memory"),
        ("speaks_of_dtypes_in_vain", None, "dtype of the table"),
        ("wants_one_dtype_and_a_length", None, "one dtype and nine tokens"),
    ],
)
def test_the_programs_own(traced, name, verdict, words):
    """q is promoted in each, and none of them fails for it: told with its place and with what was judged before."""
    answer = traced("build", file=FILE, name=name)

    assert (answer["outcome"], answer["verdict"], answer["promotions"]) == ("raised", verdict, [])
    assert answer["error"]["kind"] == "model raised"
    assert words in answer["error"]["message"]
    assert answer["error"]["at"]["function"] == name


@pytest.mark.parametrize("name", ["wants_one_dtype", "asserts_one_dtype"])
def test_a_refusal_over_dtypes(traced, name):
    """Code that wants one dtype is an attention call that raises, and mended it runs."""
    answer = traced("build", file=FILE, name=name)

    assert (answer["verdict"], answer["error"]["kind"]) == ("raises", "attention call raised")
    assert [p["call"] for p in answer["promotions"]] == ["Tensor.mul"]
    assert answer["counterfactual"]["clean_after"] == 1


def test_float32_all_along(traced):
    """No call promoted: the projection is what a trial casts, and that comes past the refusal."""
    answer = traced("build", file=FILE, name="wants_halves", half="float32")

    assert (answer["verdict"], answer["promotions"]) == ("raises", [])
    assert answer["attention"][0]["operands"]["q"]["all_along"]


def test_a_kernel_that_refuses_shapes(traced):
    """The call raises, and neither its promotion nor a promise of a clean run is told as the reason."""
    answer = traced("build", file=FILE, name="shapes_that_differ", half="float32", autocast="bfloat16")

    assert (answer["verdict"], answer["promotions"]) == ("raises", [])
    assert not any(one["blamed"] for one in answer["attention"][0]["operands"].values())
    assert "not for its dtypes" in answer["counterfactual"]["words"]


def test_backward(traced):
    """An error of a Function's own backward is not the forward's call."""
    answer = traced("build", file=FILE, name="wrong_backward", half="bfloat16", backward=True)

    assert (answer["error"]["kind"], answer["error"]["at"]["function"]) == ("model raised", "backward")
    assert [call["verdict"] for call in answer["attention"]] == ["silently mixed"]


def test_a_mask_on_another_device(traced):
    """Not taken for a kernel that only wants a GPU."""
    answer = traced("build", file=FILE, name="mask_on_the_cpu")

    assert answer["error"]["kind"] in ("wrong device", "attention call raised")
    assert "same device" in answer["error"]["message"]
    assert answer["promotions"] == []
