"""The samples of each library: what is built, in which dtype, and whether it also goes backward. No torch here.

A library is named by the module that is imported for it. Every sample stands for a way in which people run it:
weights and input in half precision ("to"), or float32 weights under autocast.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Tuple

CANARY = "triton"
"""The library that has no model to run: a kernel is compiled instead (virtual_gpu/canary.py)."""


@dataclasses.dataclass(frozen=True)
class Sample:
    name: str
    """Without dots: it is the subject of facts."""
    factory: str
    """module:function, in this package."""
    arguments: Dict[str, Any]
    autocast: Any = None
    """dtype of torch.autocast around it, or None."""
    backward: bool = False
    words: str = ""
    """What it is, for a person."""
    group: str = ""
    """On a real GPU each group has a child of its own: compiling its kernels takes long."""
    gpu: Any = None
    """Index of the GPU it runs on, where that is not the first of the node's kinds."""

    def on(self, index: int) -> Sample:
        """The same for a GPU of another kind."""
        return dataclasses.replace(
            self,
            name="{}-gpu{}".format(self.name, index),
            words="{}, on GPU {}".format(self.words, index),
            gpu=index,
        )


def _x_transformers() -> List[Sample]:
    where = "x_transformers_models:"
    return [
        Sample("x-transformers-xpos", where + "xpos", {}, words="x-transformers, xpos, weights in bfloat16"),
        # DeepSpeed's ZeRO and FSDP cast parameters alone: buffers stay as they were made.
        Sample(
            "x-transformers-rotary-fp32-buffer",
            where + "rotary_with_float32_buffer",
            {},
            words="x-transformers, rotary, parameters in bfloat16 and inv_freq in float32",
        ),
        Sample(
            "x-transformers-rotary-autocast",
            where + "rotary",
            {},
            autocast="bfloat16",
            words="x-transformers, rotary, under autocast to bfloat16",
        ),
    ]


def _transformers(attention: str) -> List[Sample]:
    label = {"sdpa": "sdpa", "flash_attention_2": "fa2"}[attention]
    return [
        Sample(
            "transformers-llama-{}-{}".format(label, mode),
            "transformers_models:llama",
            {"attention": attention, "dtype": dtype},
            autocast=autocast,
            backward=True,
            words="transformers Llama of two layers, {}, {}".format(attention, mode),
        )
        for mode, dtype, autocast in (("bfloat16", "bfloat16", None), ("autocast", "float32", "bfloat16"))
    ]


def _fla() -> List[Sample]:
    # RWKV7 first: should time run out, the one that is known to have been wrong was looked at.
    return [
        Sample(
            "fla-{}-{}".format(layer, half),
            "fla_layers:layer",
            {"name": layer},
            autocast=half,
            backward=True,
            words="flash-linear-attention, {}, under autocast to {}".format(layer, half),
            group=layer,
        )
        for layer in ("rwkv7", "gla", "gated-deltanet", "gsa")
        for half in ("bfloat16", "float16")
    ]


def _functions(library: str, names: Tuple[str, ...], label: str = "") -> List[Sample]:
    return [
        Sample(
            "{}-{}".format(label or "{}-{}".format(library, name).replace("_", "-"), half),
            "kernel_functions:" + name,
            {"dtype": half},
            backward=True,
            words="{}, {}, {}".format(library, name, half),
        )
        for name in names
        for half in ("bfloat16", "float16")
    ]


def samples_of(library: str, flash_attn: bool = False) -> List[Sample]:
    """The samples of a library; none for one that has none. `flash_attn`: it is installed beside it."""
    if library == "x_transformers":
        return _x_transformers()
    if library == "transformers":
        return _transformers("sdpa") + (_transformers("flash_attention_2") if flash_attn else [])
    if library == "fla":
        return _fla()
    if library == "flash_attn":
        return _functions("flash_attn", ("flash_attn_func", "flash_attn_varlen_func"))
    if library == "flash_attn_interface":
        return _functions("flash_attn_3", ("flash_attn_3_func",), "flash-attn-3-func")
    if library == "flash_attn.cute":
        return _functions("flash_attn_4", ("flash_attn_4_func",), "flash-attn-4-func")
    if library == "xformers":
        return _functions("xformers", ("memory_efficient_attention",))
    return []


LIBRARIES = (
    "fla",
    "transformers",
    "x_transformers",
    "flash_attn",
    "flash_attn_interface",
    "flash_attn.cute",
    "xformers",
    CANARY,
)
"""In the order in which they are started: what takes longest first."""


def library_of(module: str) -> str:
    """xformers.ops is imported to see whether xformers works; flash-attn 4 shares flash-attn 2's namespace."""
    return module if module in LIBRARIES else module.split(".")[0]
