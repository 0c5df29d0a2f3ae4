"""What stands in for a kernel gives back what the kernel would: a view that works there works here, and the reverse."""

from pathlib import Path

import pytest

MODELS = Path(__file__).parent / "layout_models.py"
EVERY = ["flash_attn", "flash_attn_3", "flash_attn_4", "xformers"]


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("library", EVERY)
def test_packed_projection(traced, library, normed, backward):
    """The output of q, k and v cut out of one projection has no gaps: it can be viewed."""
    answer = traced(
        "projected",
        file=MODELS,
        library=library,
        normed=normed,
        stand_ins=EVERY,
        autocast="float16",
        backward=backward,
    )

    assert (answer["error"], answer["verdict"]) == (None, "clean")


@pytest.mark.parametrize(
    ("library", "works"), [("flash_attn", False), ("xformers", False), ("flash_attn_3", True), ("flash_attn_4", True)]
)
def test_heads_first(traced, library, works):
    """FlashAttention 2 allocates its output like q: where heads come first in memory a view raises there and here."""
    answer = traced("projected", file=MODELS, library=library, heads_first=True, stand_ins=EVERY, autocast="float16")

    assert answer["verdict"] == "clean"  # the attention call itself
    assert (answer["error"] is None) == works
    if not works:
        assert "view size is not compatible" in answer["error"]["message"]


def test_heads_first_reshaped(traced):
    """Reshaping the same output copies it, and works."""
    answer = traced("projected", file=MODELS, library="flash_attn", heads_first=True, view=False, autocast="float16")

    assert (answer["error"], answer["verdict"]) == (None, "clean")


@pytest.mark.parametrize(("heads_first", "length", "works"), [(False, 4, True), (True, 4, False), (True, 1, True)])
def test_with_cache(traced, heads_first, length, works):
    """Decoding: one query at a time can be viewed however it lies, several cannot."""
    answer = traced("with_cache", file=MODELS, heads_first=heads_first, length=length)

    assert answer["verdict"] == "clean"
    assert (answer["error"] is None) == works


def test_masks_by_name(traced):
    """xformers' block-diagonal mask is made from tensors and gives them back."""
    answer = traced("documents", file=MODELS, stand_ins=EVERY)

    assert (answer["error"], answer["verdict"]) == (None, "clean")
