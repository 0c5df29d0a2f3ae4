"""Attention layers of flash-linear-attention, one each, 128 wide, for 128 tokens: enough for two chunks of 64.

Class names and options differ between its releases: what a release does not take is left out.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any, Dict, Tuple

import torch

WIDTH, LENGTH = 128, 128

_LAYERS: Dict[str, Tuple[str, str, Dict[str, Any]]] = {
    # Without its number of layers newer releases cannot initialise; older ones do not know the option.
    "rwkv7": ("rwkv7", "RWKV7Attention", {"head_dim": 64, "num_hidden_layers": 4}),
    "gla": ("gla", "GatedLinearAttention", {"num_heads": 2}),
    "gated-deltanet": ("gated_deltanet", "GatedDeltaNet", {"num_heads": 2, "head_dim": 64}),
    # The default feature map, swish, is compiled by torch.cuda.jiterator, which nothing stands in for.
    "gsa": ("gsa", "GatedSlotAttention", {"num_heads": 2, "num_slots": 32, "feature_map": "relu"}),
}


def layer(name: str) -> Tuple[Any, Tuple[torch.Tensor]]:
    module, kind, options = _LAYERS[name]
    found = getattr(importlib.import_module("fla.layers." + module), kind)
    taken = inspect.signature(found.__init__).parameters
    wanted = {"mode": "chunk", "hidden_size": WIDTH, "layer_idx": 0, **options}
    wanted = {key: value for key, value in wanted.items() if key in taken}
    return found(**wanted), (torch.randn(2, LENGTH, WIDTH),)
