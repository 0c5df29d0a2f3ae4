"""Faults planted in a decoder of one's own are named with layer and line; the same decoder without them is clean."""

import inspect

import pytest

from tests.conftest import needs_torch

pytestmark = needs_torch


def broken(answer):
    return {one["name"]: one for one in answer["checks"] if one["outcome"] == "broken"}


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if text in line)


@pytest.mark.parametrize("window", [0, 5])
def test_the_sound_decoder_is_clean(semantics, window):
    answer = semantics(window=window)

    assert broken(answer) == {}
    held = {one["name"] for one in answer["checks"] if one["outcome"] == "holds"}
    assert held >= {"causality", "packing", "gradient", "cache", "batch-rows"} | ({"window"} if window else set())


def test_an_encoder_may_look_ahead(semantics):
    answer = semantics("encoder")

    assert broken(answer) == {}
    assert [one["outcome"] for one in answer["checks"] if one["name"] == "causality"] == ["not applicable"]


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("inverted", "causality"),
        ("off by one", "causality"),
        ("documents", "packing"),
        ("cache position", "cache"),
        ("batch", "batch-rows"),
    ],
)
@pytest.mark.parametrize("layer", [0, 2])
def test_a_planted_fault_is_named_with_its_layer(semantics, fault, check, layer):
    from tests.patient.semantics import planted

    found = broken(semantics(fault=fault, layer=layer))[check]

    assert [one["layer"] for one in found["culprits"]] == [layer]
    assert found["culprits"][0]["type"] == "Attention"
    place = found["culprits"][0]["at"]
    first, last = line_of(planted.Attention.forward, "def forward"), line_of(planted.Attention.forward, "return ")
    assert first < place["line"] <= last
    assert place["file"].endswith("planted.py")
    if check == "causality":
        assert place["line"] == line_of(planted.Attention.forward, "scaled_dot_product_attention")


def test_a_window_off_by_one_is_named_with_its_layer(semantics):
    found = broken(semantics(fault="window", layer=1, window=5))["window"]

    assert found["culprits"][0]["layer"] == 1
    assert "layer 1 sees 6 tokens" in found["words"]
    assert "window of 5" in found["words"]


def test_the_cached_step_that_rotates_wrongly_is_named_with_its_line(semantics):
    from tests.patient.semantics import planted

    found = broken(semantics(fault="cache position", layer=1))["cache"]

    line = found["culprits"][0]["at"]["line"]
    assert line == line_of(planted.Attention.forward, "rotate(q, positions)")


def test_a_window_that_is_not_applied_is_named(semantics):
    found = broken(semantics(fault="no window", layer=2, window=5))["window"]

    assert found["culprits"][0]["layer"] == 2
    assert "sees 19 tokens" in found["words"]
