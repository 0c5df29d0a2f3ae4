"""Wants are read as a person writes them."""

from __future__ import annotations

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.stack.wants import read_wants


def test_torch_is_always_among_them() -> None:
    """It stands first, whether it was named or not."""
    assert [one.words for one in read_wants(["fla", "Flash_Attn>=2"])] == [
        "torch",
        "flash-linear-attention",
        "flash-attn>=2",
    ]
    assert [one.words for one in read_wants(["xformers", "torch==2.13.*"])] == ["torch==2.13.*", "xformers"]


@pytest.mark.parametrize("text", ["", "==2", "torch=2.13", "x @ https://example.org/x.whl"])
def test_what_is_no_requirement_is_refused(text: str) -> None:
    """In three parts."""
    with pytest.raises(BadInput) as caught:
        read_wants([text])

    assert caught.value.hint


def test_a_want_is_named_once() -> None:
    """Two requirements for one package are two answers."""
    with pytest.raises(BadInput, match="twice"):
        read_wants(["fla", "flash-linear-attention>=0.4"])
