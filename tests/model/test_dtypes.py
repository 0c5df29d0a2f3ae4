"""Names of dtypes as people write them."""

from __future__ import annotations

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.model.dtypes import SHORT, SPELLED, dtype_named


@pytest.mark.parametrize(
    ("text", "name"),
    [("fp16", "float16"), ("HALF", "float16"), ("bf16", "bfloat16"), ("float32", "float32"), ("FP32", "float32")],
)
def test_each_spelling_is_taken(text: str, name: str) -> None:
    """Small and capital letters, torch's own names and short ones."""
    assert dtype_named(text, "--autocast") == name


@pytest.mark.parametrize("text", ["", "fp8", "bool", "fp64", "int8", "bfloat", "torch.float16"])
def test_others_are_refused_with_what_there_is(text: str) -> None:
    """A model is traced in three dtypes."""
    with pytest.raises(BadInput) as raised:
        dtype_named(text, "--dtype")

    assert raised.value.about == f"--dtype {text}"
    assert "float16, bfloat16 or float32" in raised.value.hint


def test_none_asked_for() -> None:
    """Then it is the model's own."""
    assert dtype_named(None, "--dtype") is None


def test_tables_agree() -> None:
    """A short name is a spelling of the dtype that it is short for."""
    assert all(SPELLED[short] == SPELLED[name] == name for name, short in SHORT.items())
