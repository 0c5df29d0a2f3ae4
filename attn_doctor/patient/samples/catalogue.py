"""The samples of each library: the model, its dtype, and whether it also runs backward. Needs no torch.

Samples of an attention library are in its file, ../libraries. A library is named by the module that is imported for it.
Each sample represents a common way to run it: weights and input in half precision ("to"), or float32 weights under
autocast.
"""

from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional, Union

from ..libraries import LIBRARIES as ATTENTION
from ..libraries import flash_attn_2, sdpa
from ..libraries.library import Library

CANARY = "triton"
"""The library without a model to run: a kernel is compiled instead (simulate/triton/canary.py)."""


@dataclasses.dataclass(frozen=True)
class Sample:
    name: str
    """Without dots: it is the subject of facts."""
    factory: str
    """module:function, below patient/."""
    arguments: Dict[str, str]
    autocast: Optional[str] = None
    """dtype of torch.autocast around it, or None."""
    backward: bool = False
    words: str = ""
    """Description for people."""
    group: str = ""
    """On a real GPU each group has a child of its own, because compiling its kernels takes long."""
    gpu: Union[int, str, None] = None
    """Index of the GPU it runs on, when that is not the first one of its model."""

    @property
    def target(self) -> str:
        """The factory with its full import path."""
        return "{}.{}".format(__package__.rpartition(".")[0], self.factory)

    def on(self, index: Union[int, str]) -> Sample:
        """The same sample for another GPU model."""
        return dataclasses.replace(
            self,
            name="{}-gpu{}".format(self.name, index),
            words="{}, on GPU {}".format(self.words, index),
            gpu=index,
        )


def _x_transformers() -> List[Sample]:
    where = "samples.x_transformers_models:"
    return [
        Sample("x-transformers-xpos", where + "xpos", {}, words="x-transformers, xpos, weights in bfloat16"),
        # DeepSpeed's ZeRO and FSDP cast only parameters: buffers keep their dtype.
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
    label = "sdpa" if attention == sdpa.LIBRARY.attn_implementation else "fa2"
    return [
        Sample(
            "transformers-llama-{}-{}".format(label, mode),
            "samples.transformers_models:llama",
            {"attention": attention, "dtype": dtype},
            autocast=autocast,
            backward=True,
            words="transformers Llama of two layers, {}, {}".format(attention, mode),
        )
        for mode, dtype, autocast in (("bfloat16", "bfloat16", None), ("autocast", "float32", "bfloat16"))
    ]


def _of_attention(library: Library) -> List[Sample]:
    return [
        Sample(
            "{}-{}".format(one.name, half),
            "libraries." + one.factory,
            one.arguments if one.autocast else dict(one.arguments, dtype=half),
            autocast=half if one.autocast else None,
            backward=True,
            words=("{} to {}" if one.autocast else "{}, {}").format(one.words, half),
            group=one.group,
        )
        for one in library.samples
        for half in ("bfloat16", "float16")
    ]


_SAMPLED = {library.module: library for library in ATTENTION if library.samples}


def samples_of(library: str, flash_attn: bool = False) -> List[Sample]:
    """The samples of a library; empty for one without. `flash_attn`: flash-attn is installed as well."""
    if library == "x_transformers":
        return _x_transformers()
    if library == "transformers":
        found = _transformers(sdpa.LIBRARY.attn_implementation)
        return found + (_transformers(flash_attn_2.LIBRARY.attn_implementation) if flash_attn else [])
    return _of_attention(_SAMPLED[library]) if library in _SAMPLED else []


_COMPILED = tuple(name for name, library in _SAMPLED.items() if any(one.group for one in library.samples))

LIBRARIES = (
    *_COMPILED,
    "transformers",
    "x_transformers",
    *(name for name in _SAMPLED if name not in _COMPILED),
    CANARY,
)
"""In the order in which they are started: the slowest first."""

STOOD_IN = tuple(library.module for library in ATTENTION if library.modules)
"""Libraries whose samples need the library itself: a stand-in would hide that it cannot be imported."""


def library_of(module: str) -> str:
    """xformers.ops is the import test of xformers; flash-attn 4 shares flash-attn 2's namespace."""
    return module if module in LIBRARIES else module.split(".")[0]
