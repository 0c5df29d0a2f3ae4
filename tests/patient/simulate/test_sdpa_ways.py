"""What gets a call off SDPA's math, and what math costs it."""

import dataclasses

import pytest

from attn_doctor.patient.simulate.cuda import simulated_gpu
from attn_doctor.patient.simulate.sdpa import fused_ways
from attn_doctor.patient.simulate.sdpa.choice import MATH, Call, Tensor, choose

HOPPER = simulated_gpu.from_request({"compute_capability": "9.0"})
TURING = simulated_gpu.from_request({"compute_capability": "7.5"})
TORCH = "2.13.0"


def call(dtype="bfloat16", shape=(2, 8, 1024, 64), key_shape=None, **more):
    query, key = Tensor(shape, dtype), Tensor(key_shape or shape, dtype)
    return Call(query, key, key, **more)


def found(asked, gpu=HOPPER):
    def chooses(other):
        choice = choose(other, gpu, TORCH)
        return choice.backend if choice.error is None else None

    assert chooses(asked) == MATH
    return [way.words for way in fused_ways.ways(asked, gpu, chooses)]


TRANSPOSED = Tensor((2, 8, 1024, 1024), "bfloat16", strides=(8388608, 1048576, 1, 1024))


@pytest.mark.parametrize(
    ("asked", "gpu", "first"),
    [
        (call(mask=TRANSPOSED), HOPPER, "make attn_mask contiguous"),
        (call(shape=(8, 1024, 64)), HOPPER, "hand SDPA 4-D tensors"),
        (call(dtype="float64"), HOPPER, "hand SDPA bfloat16 instead of float64"),
        (call(), TURING, "hand SDPA float16 instead of bfloat16"),
        (call(shape=(2, 8, 1024, 300)), HOPPER, "pad the head dimension"),
        (call(shape=(2, 8, 1024, 20), mask=Tensor((1024, 1024), "bfloat16")), HOPPER, "pad the head dimension"),
        (call(key_shape=(2, 2, 1024, 64)), HOPPER, "repeat k and v to the 8 heads of q"),
    ],
)
def test_the_least_change(asked, gpu, first):
    """One change is enough, and the one that leaves the result as it is comes first."""
    words = found(asked, gpu)

    assert words[0].startswith(first)
    assert len(words) <= 3


def test_two_changes(tmp_path):
    """Where none alone is enough, two are told as one way."""
    (words, *_) = found(call(mask=TRANSPOSED), TURING)

    assert "attn_mask.contiguous(), and hand SDPA float16" in words


def test_a_call_that_trains_keeps_its_gradient():
    """What is changed is the operand that stands in the way, and no other property of the call."""
    asked = call(mask=TRANSPOSED)
    asked = dataclasses.replace(asked, query=dataclasses.replace(asked.query, requires_grad=True))

    assert found(asked)[0].startswith("make attn_mask contiguous")


@pytest.mark.parametrize(
    ("dtype", "torch", "bytes_"), [("bfloat16", "2.13.0", 4), ("bfloat16", "2.4.1", 2), ("float64", "2.13.0", 8)]
)
def test_scores(dtype, torch, bytes_):
    """A number for each query and key of each head, in float32 for halves from torch 2.5 on."""
    assert fused_ways.score_bytes(call(dtype), torch) == 2 * 8 * 1024 * 1024 * bytes_


def test_operands():
    """q, k, v and an output as large as q."""
    assert fused_ways.operand_bytes(call()) == 4 * 2 * 8 * 1024 * 64 * 2
