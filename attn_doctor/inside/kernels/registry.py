"""The kernels that are looked at: whose they are, and the file in backends/ that calls them. No torch."""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, Optional, Tuple

from ..libraries import fla, flash_attn_2, flash_attn_3, flash_attn_4, flex, transformer_engine, xformers
from . import offers
from .cells import EIGHT_BITS, Cell, Place


@dataclasses.dataclass(frozen=True)
class Backend:
    """One kernel, or one way to one."""

    name: str
    title: str
    calls: Optional[str]
    """Module in backends/ with `prepare(problem, backend)`; None: preview, its contract alone is known."""
    contract: Callable[[Cell, Place], Optional[str]]
    distribution: Optional[str] = None
    """Whose metadata tells the version; None: torch's own."""
    module: Optional[str] = None
    """What must be there to import."""
    alone: bool = True
    """No other distribution brings a module of that name; False: the distribution must be there as well."""
    apart_from: str = ""
    """Another backend whose operators have the same names: torch lets one library of a process register them."""
    linear: bool = False
    """No softmax: it has a reference of its own in backends/."""
    compiled: bool = False
    """Compiled when it is first called: seconds a cell, so that few are run."""
    variants: Tuple[str, ...] = ("",)
    """Choices of its own tuning that it is held to, one after the other; each is right or the kernel is not."""
    promises: Tuple[str, ...] = ()
    """Directions in which the same inputs are promised to give the same bits."""
    chooses: bool = False
    """It has several kernels and picks one: its module has `chosen(problem)` that names it."""
    sample: str = ""
    """The sample of samples/catalogue.py, without its dtype, whose launches are compiled where there is no GPU."""
    more_dtypes: Tuple[str, ...] = ()
    """Offered besides those that everything is asked for."""

    @property
    def compiled_as(self) -> Optional[str]:
        """How its Triton kernels come to be known without a GPU: "sample", "inductor", "call"; None: it has none."""
        if self.sample:
            return "sample"
        return {"flex": "inductor", "own": "call"}.get(self.calls or "")


_FLASH_FORWARD = ("forward",)
# flash_attn_func's docstring: "The forward pass is always deterministic."

BACKENDS: Tuple[Backend, ...] = (
    Backend("sdpa-default", "SDPA, as torch picks", "sdpa", offers.torch_sdpa, chooses=True),
    Backend("sdpa-flash", "SDPA flash", "sdpa", offers.torch_sdpa, promises=_FLASH_FORWARD),
    Backend("sdpa-efficient", "SDPA memory-efficient", "sdpa", offers.torch_sdpa),
    Backend("sdpa-cudnn", "SDPA cuDNN", "sdpa", offers.torch_sdpa),
    Backend("sdpa-math", "SDPA math", "sdpa", offers.torch_sdpa),
    Backend(
        "flash-attn-2",
        "FlashAttention-2",
        "flash_attn_2",
        offers.by(flash_attn_2.clauses),
        distribution="flash-attn",
        module="flash_attn_2_cuda",
        promises=_FLASH_FORWARD,
    ),
    Backend(
        "flash-attn-3",
        "FlashAttention-3",
        "flash_attn_3",
        offers.by(flash_attn_3.clauses),
        distribution="flash-attn-3",
        module="flash_attn_interface",
        promises=_FLASH_FORWARD,
        more_dtypes=(EIGHT_BITS,),
    ),
    Backend(
        "flash-attn-4",
        "FlashAttention-4",
        "flash_attn_4",
        offers.by(flash_attn_4.clauses),
        distribution="flash-attn-4",
        module="flash_attn.cute",
        alone=False,
        compiled=True,
    ),
    Backend(
        "xformers",
        "xformers",
        "xformers_ops",
        offers.by(xformers.clauses),
        distribution="xformers",
        module="xformers",
        apart_from="flash-attn-3",
        chooses=True,
    ),
    Backend(
        "transformer-engine",
        "Transformer Engine",
        None,
        offers.by(transformer_engine.clauses),
        distribution="transformer-engine",
        module="transformer_engine",
    ),
    *(
        Backend(
            "fla-" + name,
            "fla " + title,
            "fla_ops",
            fla.offered,
            distribution="fla-core",
            module="fla",
            linear=True,
            compiled=True,
            variants=("4 warps", "2 warps"),
            sample="fla-" + layer,
        )
        for name, title, layer in (
            ("gated-delta-rule", "gated delta rule", "gated-deltanet"),
            ("gla", "GLA", "gla"),
            ("gsa", "GSA", "gsa"),
            ("rwkv7", "RWKV-7", "rwkv7"),
        )
    ),
    Backend("flex", "FlexAttention", "flex", offers.by(flex.clauses), compiled=True),
)

_BY_NAME: Dict[str, Backend] = {backend.name: backend for backend in BACKENDS}


def own(name: str) -> Backend:
    """A function of the person's, `module:function`, with the arguments of scaled_dot_product_attention."""
    return Backend(name, name, "own", offers.own, module=name.partition(":")[0])


def backend(name: str) -> Backend:
    """The backend of that name. Raises KeyError."""
    return own(name) if ":" in name else _BY_NAME[name]
