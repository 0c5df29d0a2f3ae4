"""Attention calls are met wherever they are made, and judged by their kernel's own contract."""

import pytest

from tests.inside.trace.conftest import operand


@pytest.mark.parametrize(
    ("factory", "name", "verdict"),
    [
        ("plain", "scaled_dot_product_attention", "clean"),
        ("multi_head", "scaled_dot_product_attention", "clean"),
        ("xformers_attention", "memory_efficient_attention", "raises"),
        ("flex", "flex_attention", "raises"),
        ("custom_op", "attn_doctor_tests.attention.default", "silently mixed"),
        ("cast_by_hand", "_Kernel.apply", "silently mixed"),
        ("asserting", "kernel", "raises"),
        ("variable_length", "flash_attn_varlen_func", "clean"),
    ],
)
def test_met(traced, factory, name, verdict):
    """Each way of calling attention is one entry with its name and verdict."""
    answer = traced(factory, stand_ins=["flash_attn", "xformers"])

    assert [(call["name"], call["verdict"]) for call in answer["attention"]] == [(name, verdict)]


def test_packed(traced):
    """The packed variant is judged by its three parts, with the strides that the kernel sees."""
    answer = traced("packed", autocast="bfloat16")

    assert answer["verdict"] == "clean"
    assert operand(answer, "k")["shape"] == [2, 8, 4, 8]
    assert operand(answer, "k")["stride"] == [768, 96, 8, 1]


def test_cache_of_another_dtype(traced):
    """A float32 cache beside a half query is refused as flash_attn refuses it."""
    answer = traced("with_cache")

    assert answer["attention"][0]["error"]["message"] == "query and key must have the same dtype"
    assert traced("with_cache", cache="float16")["verdict"] == "clean"


@pytest.mark.parametrize("capability", ["9.0", "8.0", "8.9"])
def test_float32_mask(traced, capability):
    """A float32 mask on half operands: cuDNN computes wrongly in silence where it comes first, others refuse."""
    answer = traced("masked", gpu={"compute_capability": capability})
    taken = answer["attention"][0]["backend"]["taken"]

    assert answer["verdict"] == {"cudnn": "silently mixed", "efficient": "raises"}[taken]
    assert operand(answer, "mask")["blamed"]


@pytest.mark.parametrize("kind", ["float16", "bool"])
def test_fitting_mask(traced, kind):
    """A mask in q's dtype, or a boolean one, breaks nothing."""
    assert traced("masked", kind=kind)["verdict"] == "clean"


def test_what_stood_in_is_said(traced):
    """A kernel that did not run is never passed off as one that did."""
    assert "stand-in" in traced("variable_length")["attention"][0]["stand_in"]
    assert traced("plain")["attention"][0]["stand_in"] is None


@pytest.mark.parametrize(
    ("gpu", "version", "message"),
    [
        ("7.5", "2.8.3", "FlashAttention only supports Ampere GPUs or newer."),
        ("10.0", "2.7.2", "FlashAttention only supports Ampere GPUs or newer."),
        ("10.0", "2.7.3", "FlashAttention only support fp16 and bf16 data type"),
        ("8.9", "2.0.0", "FlashAttention only support fp16 and bf16 data type"),
    ],
)
def test_order_of_checks(traced, gpu, version, message):
    """Of several broken clauses the one that flash_attn checks first is raised: the GPU before the dtype."""
    answer = traced("single", gpu={"compute_capability": gpu}, flash_attn_version=version)

    assert answer["attention"][0]["error"]["message"] == message
    assert answer["attention"][0]["error"]["predicted"]


def test_clean_never_without_a_call(traced):
    """A program without an attention call has no verdict, which is not the same as clean."""
    answer = traced("without_attention")

    assert (answer["verdict"], answer["outcome"]) == (None, "finished")
