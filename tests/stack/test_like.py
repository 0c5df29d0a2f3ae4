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
        ("config.json", '{"model_type": "gated_deltanet", "hidden_size": 64}', ("flash-linear-attention",)),
        (
            "config.json",
            '{"model_type": "qwen3_next", "_attn_implementation": "paged|flash_attention_2"}',
            ("flash-linear-attention", "flash-attn"),
        ),
        ("config.json", '{"model_type": "llama", "_attn_implementation": "flash_attention_4"}', ("flash-attn-4",)),
        (
            "config.json",
            '{"model_type": "llama", "attn_implementation": "kernels-community/flash-attn2@v3"}',
            ("kernels",),
        ),
        ("run.yaml", "base_model: a/b\nsequence_len: 64\nxformers_attention: true\n", ("xformers",)),
        ("run.yaml", "base_model: a/b\nsequence_len: 64\nsage_attention: true\n", ("sageattention",)),
        ("run.yaml", "base_model: a/b\nsequence_len: 64\nattn_implementation: flex_attention\n", ()),
    ],
)
def test_attention_and_its_package(tmp_path: Path, name: str, text: str, needs: tuple[str, ...]) -> None:
    """By the name that the framework has for it."""
    file = tmp_path / name
    file.write_text(text)

    assert wants_of([file]) == ("torch", "transformers", *needs)


def test_a_model_in_a_folder(tmp_path: Path) -> None:
    """LLaMA-Factory names the folder, whose config.json names the architecture."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "gla"}')
    file = tmp_path / "train.yaml"
    file.write_text(f"model_name_or_path: {tmp_path / 'model'}\nstage: sft\nflash_attn: auto\n")

    assert wants_of([file]) == ("torch", "transformers", "flash-linear-attention")


def test_an_attention_that_nobody_knows(tmp_path: Path) -> None:
    """Said, and not passed over."""
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "llama", "_attn_implementation": "warp_attention"}')

    with pytest.raises(BadInput, match="warp_attention"):
        wants_of([file])
