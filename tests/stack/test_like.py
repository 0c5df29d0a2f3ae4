"""What a configuration needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from attn_doctor.errors import BadInput
from attn_doctor.stack.like import wants_of


@pytest.mark.parametrize(
    ("name", "text", "needs"),
    [
        ("train.yaml", "model_name_or_path: a/b\nflash_attn: fa2\nstage: sft\n", ("flash-attn",)),
        ("train.yaml", "model_name_or_path: a/b\nflash_attn: sdpa\nstage: sft\n", ()),
        ("config.json", '{"model_type": "llama", "_attn_implementation": "flash_attention_3"}', ("flash-attn-3",)),
        (
            "config.json",
            '{"model_type": "llama", "attn_implementation": "hub/flash-attn2"}',
            ("kernels",),
        ),
    ],
)
def test_attention_and_its_package(tmp_path: Path, name: str, text: str, needs: tuple[str, ...]) -> None:
    """By the name that the framework has for it."""
    file = tmp_path / name
    file.write_text(text)

    assert wants_of([file]) == ("torch", "transformers", *needs)


def test_an_attention_that_nobody_knows(tmp_path: Path) -> None:
    """Said, and not passed over."""
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "llama", "_attn_implementation": "warp_attention"}')

    with pytest.raises(BadInput, match="warp_attention"):
        wants_of([file])
