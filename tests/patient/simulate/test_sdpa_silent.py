"""What a backend that takes a call is known to compute wrong, from its lengths and strides alone."""

import pytest

from attn_doctor.patient.simulate.sdpa.rules import CUDNN, EFFICIENT, FLASH, Call, Tensor
from attn_doctor.patient.simulate.sdpa.silent import known_faults


def call(length, mask, dtype="bfloat16", strides=None, keys=None):
    query = Tensor((1, 8, length, 128), dtype)
    key = Tensor((1, 8, keys or length, 128), dtype, strides)
    return Call(query, key, key, mask=mask)


def square(length, strides=None):
    return Tensor((1, 1, length, length), "bool", strides)


@pytest.mark.parametrize(("length", "first"), [(65536, None), (65537, 65536), (66000, 65076), (70000, 61357)])
def test_rows_past_two_to_the_32(length, first):
    """66,000 is what was seen on a GPU: right up to row 65,075. 65,536 squared fits exactly."""
    found = known_faults(EFFICIENT, call(length, square(length)), (2, 11))

    assert [f"rows from {first:,} on" in words for words in found] == ([True] if first else [])


@pytest.mark.parametrize(
    ("backend", "mask"),
    [
        (CUDNN, square(70000)),
        (FLASH, square(70000)),
        (EFFICIENT, None),
        (EFFICIENT, Tensor((1, 1, 1, 70000), "bool")),
        (EFFICIENT, square(70000, (0, 0, 0, 1))),
    ],
)
def test_other_backends_and_masks_of_one_row_are_right(backend, mask):
    assert known_faults(backend, call(70000, mask), (2, 11)) == ()
