"""flash-linear-attention: the return values of its functions, and its layers in samples. It has no contract.

Source: fla-org/flash-linear-attention, fla/ops (0.1 to 0.6.0).
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from ..dtypes import HALVES
from .library import Backend, Library, Sampled

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from ..arguments import Given
    from ..kernels.cells import Cell, Place

LINEAR_HEAD_DIMS = {
    "fla-gated-delta-rule": (128, 64),
    "fla-gla": (64,),
    "fla-gsa": (64,),
    "fla-rwkv7": (64,),
}


def offered(cell: Cell, place: Place) -> Optional[str]:
    """Limits trials to pinned configurations of each kernel: the head dims of published models, a whole sequence."""
    if cell.form != "causal":
        return "linear attention is causal and takes no mask"
    if cell.dtype not in HALVES:
        return "its chunked kernels do not support float32; bfloat16 is asked for"
    pinned = LINEAR_HEAD_DIMS[cell.backend]
    words = " and ".join(str(dim) for dim in pinned)
    return None if cell.head_dim in pinned else "pinned configurations are run: head dim {}".format(words)


_OUTPUT_ALONE = ("parallel_attn", "parallel_forgetting_attn", "parallel_nsa", "parallel_based", "parallel_rebased")


def answer(name: str, given: Given, out: Tensor, q: Tensor, v: Tensor) -> Any:
    """The return value: the output and the final state, which is None unless requested. Attention with a softmax has no
    state.
    """
    if name in _OUTPUT_ALONE or name.startswith("attn_"):
        return out
    if not given.get("output_final_state"):
        return out, None
    starts = given.get("cu_seqlens")
    batch = q.shape[0] if starts is None else int(starts.shape[0]) - 1
    heads = q.shape[1] if given.get("head_first") else q.shape[2]
    state = q.detach().new_zeros((batch, heads, q.shape[-1], v.shape[-1])).float()
    if name.endswith("gsa"):
        slots = given["s"].shape[-1]
        return out, (state.new_zeros((*state.shape[:3], slots)), state.new_zeros((batch, heads, slots, v.shape[-1])))
    return out, state


_WIDTH, _LENGTH = 128, 128
_LAYERS: Dict[str, Tuple[str, str, Dict[str, object]]] = {
    # Newer releases cannot initialize it without the number of layers; older ones do not have the option.
    "rwkv7": ("rwkv7", "RWKV7Attention", {"head_dim": 64, "num_hidden_layers": 4}),
    "gla": ("gla", "GatedLinearAttention", {"num_heads": 2}),
    "gated-deltanet": ("gated_deltanet", "GatedDeltaNet", {"num_heads": 2, "head_dim": 64}),
    # The default feature map, swish, is compiled by torch.cuda.jiterator, which has no stand-in.
    "gsa": ("gsa", "GatedSlotAttention", {"num_heads": 2, "num_slots": 32, "feature_map": "relu"}),
}


def layer(name: str) -> Tuple[Module, Tuple[Tensor]]:
    """One attention layer of width 128, and its input of 128 tokens: enough for two chunks of 64.

    Class names and options differ between releases: options that a release does not have are left out.
    """
    import torch

    module, kind, options = _LAYERS[name]
    found = getattr(importlib.import_module("fla.layers." + module), kind)
    taken = inspect.signature(found.__init__).parameters
    wanted = {"mode": "chunk", "hidden_size": _WIDTH, "layer_idx": 0, **options}
    wanted = {key: value for key, value in wanted.items() if key in taken}
    return found(**wanted), (torch.randn(2, _LENGTH, _WIDTH),)


LIBRARY = Library(
    name="fla",
    order=60,
    module="fla",
    distributions=("flash-linear-attention", "fla-core"),
    also_called=("fla",),
    imports="fla.ops",  # without its layers the bare package can be imported on a machine without triton
    in_messages=(r"flash[-_ ]linear[-_ ]attention", r"\bfla(?:-core|\.ops)\b"),
    functions=((r"fla\.ops\.", r"(chunk|fused|parallel|recurrent|naive)_\w+$|attn_\w+$"),),
    loops=r"torch_(?P<what>(?:chunk|recurrent)_\w+)",
    answer=lambda met: answer(met.name, met.given, met.out, met.operands["q"], met.operands["v"]),
    # Its own models (fla/models), and those of transformers 5.23 and of Kimi that take its kernels where it is there.
    model_types=(
        "abc",
        "comba",
        "delta_net",
        "deltaformer",
        "forgetting_transformer",
        "gated_deltanet",
        "gated_deltaproduct",
        "gla",
        "gsa",
        "hgrn",
        "hgrn2",
        "kda",
        "lightnet",
        "linear_attn",
        "log_linear_mamba2",
        "mesa_net",
        "moba",
        "mom",
        "nsa",
        "parallax",
        "path_attn",
        "precond_gated_deltanet",
        "precond_kda",
        "raven",
        "retnet",
        "rodimus",
        "rwkv6",
        "rwkv7",
        "samba",
        "transformer",
        "wall_transformer",
        "yoco",
        "kimi_linear",
        "olmo_hybrid",
        "qwen3_5",
        "qwen3_5_text",
        "qwen3_5_moe",
        "qwen3_5_moe_text",
        "qwen3_next",
        "qwen4_exp",
        "qwen4_exp_text",
    ),  # fmt: skip
    # Written out: the doctor's side reads the literals of this file and runs none of it.
    backends=(
        Backend(
            name="fla-gated-delta-rule",
            title="fla gated delta rule",
            calls="fla_trials",
            contract=offered,
            distribution="fla-core",
            linear=True,
            compiled=True,
            compiled_as="sample",
            variants=("4 warps", "2 warps"),
            sample="fla-gated-deltanet",
        ),
        Backend(
            name="fla-gla",
            title="fla GLA",
            calls="fla_trials",
            contract=offered,
            distribution="fla-core",
            linear=True,
            compiled=True,
            compiled_as="sample",
            variants=("4 warps", "2 warps"),
            sample="fla-gla",
        ),
        Backend(
            name="fla-gsa",
            title="fla GSA",
            calls="fla_trials",
            contract=offered,
            distribution="fla-core",
            linear=True,
            compiled=True,
            compiled_as="sample",
            variants=("4 warps", "2 warps"),
            sample="fla-gsa",
        ),
        Backend(
            name="fla-rwkv7",
            title="fla RWKV-7",
            calls="fla_trials",
            contract=offered,
            distribution="fla-core",
            linear=True,
            compiled=True,
            compiled_as="sample",
            variants=("4 warps", "2 warps"),
            sample="fla-rwkv7",
        ),
    ),
    # RWKV7 first: if time runs out, the layer with a known defect has been examined.
    samples=(
        Sampled(
            name="fla-rwkv7",
            words="flash-linear-attention, rwkv7, under autocast",
            factory="fla:layer",
            arguments={"name": "rwkv7"},
            autocast=True,
            group="rwkv7",
        ),
        Sampled(
            name="fla-gla",
            words="flash-linear-attention, gla, under autocast",
            factory="fla:layer",
            arguments={"name": "gla"},
            autocast=True,
            group="gla",
        ),
        Sampled(
            name="fla-gated-deltanet",
            words="flash-linear-attention, gated-deltanet, under autocast",
            factory="fla:layer",
            arguments={"name": "gated-deltanet"},
            autocast=True,
            group="gated-deltanet",
        ),
        Sampled(
            name="fla-gsa",
            words="flash-linear-attention, gsa, under autocast",
            factory="fla:layer",
            arguments={"name": "gsa"},
            autocast=True,
            group="gsa",
        ),
    ),
)
