"""A call of SDPA as a person writes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attn_doctor.errors import BadInput
from attn_doctor.probe.kernels import sdpa_spec


def test_everything() -> None:
    """Each word has its place."""
    call = sdpa_spec.parse("q=2x32x4096x128:bf16 k=2x8x4096x128 mask=fp32:2x1x4096x4096 train gqa dropout=0.1")

    assert call == {
        "q": {"shape": [2, 32, 4096, 128], "dtype": "bfloat16"},
        "k": {"shape": [2, 8, 4096, 128], "dtype": "bfloat16"},
        "v": {"shape": [2, 8, 4096, 128], "dtype": "bfloat16"},
        "mask": {"shape": [2, 1, 4096, 4096], "dtype": "float32"},
        "dropout": 0.1,
        "causal": False,
        "train": True,
        "gqa": True,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no q"),
        ("q=2x32x4096:bf16", "four numbers"),
        ("q=2x32x4096x128", "no dtype"),
        ("q=2x32x4096x128:bf17", "no such dtype"),
        ("q=2x32x0x128:bf16", "at least 1"),
        ("q=1x1x8x8:bf16 casual", "did you mean causal"),
        ("q=1x1x8x8:bf16 q=1x1x8x8:bf16", "twice"),
        ("q=1x1x8x8:bf16 k=1x1x8x16", "head dimension"),
        ("q=1x1x8x8:bf16 k=1x1x8x8 v=1x1x9x8", "positions"),
        ("q=1x1x8x8:bf16 mask=bool:8x9", "does not spread"),
        ("q=1x1x8x8:bf16 mask=int8", "no such dtype"),
        ("q=1x1x8x8:bf16 dropout=1.5", "dropout"),
        ("q=1x1x8x8:bf16 mask=", "not understood"),
    ],
)
def test_bad(text: str, words: str) -> None:
    """What is wrong is said, with an example."""
    with pytest.raises(BadInput, match=words) as caught:
        sdpa_spec.parse(text)

    assert "--explain-sdpa" in caught.value.hint


@given(text=st.text(alphabet="qkvmask=x:12,. bf16causltrin", max_size=40))
def test_never_anything_but_bad_input(text: str) -> None:
    """Whatever is typed is a call or one clear error."""
    try:
        call = sdpa_spec.parse(text)
    except BadInput:
        return
    assert len(call["q"]["shape"]) == 4
