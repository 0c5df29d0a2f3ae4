"""x-transformers with rotary embeddings: two layers of width 64, flash attention on (which is torch's SDPA in that
library).
"""

from __future__ import annotations

from typing import Tuple

import torch

WIDTH, LENGTH = 64, 16


def xpos() -> Tuple[torch.nn.Module, Tuple[torch.Tensor]]:
    """Parameters and buffers in bfloat16; xpos computes its scale in float32 at every call."""
    from x_transformers import Decoder

    model = Decoder(dim=WIDTH, depth=2, heads=2, attn_flash=True, rotary_xpos=True)
    return model.eval().to(torch.bfloat16), (_input(torch.bfloat16),)


def rotary_with_float32_buffer() -> Tuple[torch.nn.Module, Tuple[torch.Tensor]]:
    model = rotary()[0].to(torch.bfloat16)
    for name, buffer in model.named_buffers():
        if name.endswith("inv_freq"):
            buffer.data = buffer.data.float()
    return model, (_input(torch.bfloat16),)


def rotary() -> Tuple[torch.nn.Module, Tuple[torch.Tensor]]:
    from x_transformers import Encoder

    model = Encoder(dim=WIDTH, depth=2, heads=2, attn_flash=True, rotary_pos_emb=True)
    return model.eval(), (_input(torch.float32),)


def _input(dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(1, LENGTH, WIDTH, dtype=dtype)
