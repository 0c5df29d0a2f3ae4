"""A Llama of two layers from a config object: nothing is downloaded. For transformers 4.36 and later, 5.x too."""

from __future__ import annotations

from typing import Dict, Tuple

import torch


def llama(attention: str, dtype: str) -> Tuple[torch.nn.Module, Dict[str, object]]:
    """`attention` is transformers' attn_implementation, `dtype` that of weights and buffers."""
    from transformers import AutoModel, LlamaConfig

    config = LlamaConfig(
        vocab_size=32,
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        use_cache=False,
    )
    model = AutoModel.from_config(config, attn_implementation=attention).to(getattr(torch, dtype))
    return model, {"input_ids": torch.arange(16).view(1, 16)}
