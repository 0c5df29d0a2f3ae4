"""Hidden states laid side by side: the call that widened one of them is the culprit, not the one that joins them."""

from pathlib import Path

import pytest

from tests.patient.trace.conftest import culprit

FILE = Path(__file__).parent / "joined_models.py"


def line_of(words):
    return next(n for n, line in enumerate(FILE.read_text().splitlines(), 1) if line.endswith("# " + words))


@pytest.mark.parametrize("factory", ["concatenated", "stacked", "chosen"])
@pytest.mark.parametrize("role", ["q", "k"])
def test_a_joined_stream_that_was_widened(traced, factory, role):
    """The multiplication is named, and casting its result back mends the call."""
    answer = traced(factory, file=FILE)
    found = culprit(answer, role)

    assert (found["line"], found["call"], found["kind"]) == (
        line_of("widens the second stream"),
        "Tensor.mul",
        "mixed operands",
    )
    assert answer["counterfactual"]["clean_after"] == 1


@pytest.mark.parametrize("factory", ["wide_all_along", "with_tokens"])
def test_a_joined_stream_that_was_never_half(traced, factory):
    """Nothing widened it: what joins it to a half one promotes that."""
    found = culprit(traced(factory, file=FILE), "q")

    assert (found["line"], found["call"]) == (line_of("lays side by side"), "torch.cat")


@pytest.mark.parametrize("alone", ["q k v", "q", "q k"])
def test_a_stream_written_into_a_wider_buffer(traced, alone):
    """The allocation is named, with the dtype of what was written into it; allocated in that, the call is clean."""
    answer = traced("gathered", file=FILE, alone=alone)
    found = culprit(answer, "q")

    assert (found["line"], found["call"], found["kind"]) == (
        line_of("allocates the buffer"),
        "torch.empty",
        "buffer's own dtype",
    )
    assert (found["dtype_in"], found["dtype_out"], found["roles"]) == ("float16", "float32", alone.split())
    assert answer["counterfactual"]["clean_after"] == 1


def test_buffers_of_all_three_before_sdpa(traced):
    """It takes them, in float32; buffers in half are clean."""
    widened = traced("gathered", file=FILE, kernel="sdpa")
    right = traced("gathered", file=FILE, alone="", kernel="sdpa")

    assert [one["kind"] for one in widened["promotions"]] == ["buffer's own dtype"]
    assert widened["verdict"] == right["verdict"] == "clean"
    assert right["promotions"] == []
