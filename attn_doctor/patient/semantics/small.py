"""A model's config cut down until its class can be run many times in seconds: few layers, narrow, short windows.

One layer of each kind stays, so that none is left out. Several cuts are tried, the smallest first: some classes require
sizes to agree in ways that only they know.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from typing import Any, Dict, Iterator, List, Tuple

import torch

from ..trace.run import config_entry

WINDOW = 6
"""Tokens of a sliding window: shorter than a test sequence."""
VOCABULARY = 128
_MOST_PARAMETERS = 40_000_000

_LAYERS = (
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_layers", "encoder_layers", "num_decoder_layers",
    "num_encoder_layers",
)  # fmt: skip
_COUNTS = {
    "vocab_size": VOCABULARY, "vocab_size_per_layer_input": VOCABULARY,
    "num_local_experts": 4, "num_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4,
    "num_experts_per_tok": 2, "num_experts_per_token": 2, "moe_topk": 2, "moe_top_k": 2, "top_k_experts": 2, "moe_k": 2,
    "n_group": 1, "topk_group": 1, "num_expert_group": 1,
    "intermediate_size": 64, "ffn_dim": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "d_ff": 64, "n_inner": 64,
    "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, "ffn_hidden_size": 64,
    "expert_ffn_hidden_size": 32, "zero_expert_num": 2, "encoder_hash_byte_group_vocab": 128,
    "num_kv_shared_layers": 0,
    "chunk_size": 8, "mamba_chunk_size": 8, "max_position_embeddings": 256, "n_positions": 256, "n_ctx": 256,
}  # fmt: skip
_WINDOWS = {
    "sliding_window": WINDOW,
    "attention_chunk_size": WINDOW,
    "window_size": WINDOW,
    "attention_window_size": WINDOW,
}
_WIDTHS = {
    "hidden_size": 64, "n_embd": 64, "d_model": 64, "dim": 64, "n_embed": 64,
    "num_attention_heads": 4, "n_head": 4, "n_heads": 4, "num_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_ssm": 128, "mamba_n_groups": 1, "mamba_num_heads": 8,
    "mamba_head_dim": 16, "mamba_headdim": 16, "mamba_ngroups": 1,
    "attention_hidden_size": 128, "attention_head_dim": 32, "hidden_size_global": 64,
    "adapter_in_dim": 64, "adapter_out_dim": 64,
    "q_lora_rank": 32, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 16,
    "qk_head_dim": 32,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
}  # fmt: skip
_OLD = {"rotary_dim": 8, "word_embed_proj_dim": 64}
_MAMBA_2 = {"num_heads": 8, "n_groups": 1}
_EXACT = ("mamba_n_heads", "mamba_d_head", "mamba_d_ssm", "mamba_num_heads", "mamba_head_dim")
"""Sizes that have to multiply to another one, so that a smaller one is set as well."""
_ROPE = ("rope_theta", "partial_rotary_factor", "llama_4_scaling_beta", "original_max_position_embeddings")
"""What is left of a rotary embedding's settings: a base, and what attention itself reads from them."""
_KINDS = ("layer_types", "layers_block_type")
"""Kinds of layers, one for each; a list in the config, or computed from a period and an offset."""
_MOST_LAYERS = 12


class CannotCut(Exception):
    """No cut of this config builds a model that runs."""


def models(transformers: Any, config: Any, attn: Any, trusted: bool) -> Iterator[Tuple[Any, str]]:
    """Models with random weights, from the smallest cut on, each with its cut in words; the caller takes the first that
    runs. Raises CannotCut with the first reason when the cuts are used up."""
    first = ""
    for layers, tables in _cuts():
        try:
            small, words = _cut(config, layers, tables)
            with torch.device("meta"):
                size = _parameters(_build(transformers, small, attn, trusted))
            if size > _MOST_PARAMETERS:
                first = first or "{:,} parameters are left of it".format(size)
                continue
            model = _build(transformers, copy.deepcopy(small), attn, trusted)
        except config_entry.Unusable:
            raise
        except Exception as error:  # noqa: BLE001
            first = first or "{}: {}".format(type(error).__name__, (str(error).strip().splitlines() or [""])[0])
            continue
        _spread(model)
        yield model.eval(), words
    raise CannotCut(first + _uncut(transformers, config, attn, trusted))


def _uncut(transformers: Any, config: Any, attn: Any, trusted: bool) -> str:
    """Whether the config as it stands builds its class at all, in words."""
    try:
        with torch.device("meta"):
            _build(transformers, copy.deepcopy(config), attn, trusted)
    except Exception as error:  # noqa: BLE001
        words = (str(error).strip().splitlines() or [""])[0]
        return "; its class does not build from this config uncut either: {}: {}".format(type(error).__name__, words)
    return ""


def _cuts() -> Iterator[Tuple[int, Tuple[Dict[str, int], ...]]]:
    for layers in (2, 4, 0):
        yield layers, (_COUNTS, _WINDOWS, _WIDTHS)
        yield layers, (_COUNTS, _WINDOWS, {**_WIDTHS, "num_key_value_heads": 4})
        yield layers, (_COUNTS, _WINDOWS, {**_WIDTHS, "num_key_value_heads": 4, "head_dim": 32, "v_head_dim": 32})
        yield layers, (_COUNTS, _WINDOWS, {**_WIDTHS, **_OLD})
        yield layers, (_COUNTS, _WINDOWS, {**_WIDTHS, **_MAMBA_2})
        yield layers, (_COUNTS, _WINDOWS, {name: size for name, size in _WIDTHS.items() if name != "head_dim"})
        yield layers, (_COUNTS, _WINDOWS)
        yield layers, (_COUNTS,)


def _cut(config: Any, layers: int, tables: Tuple[Dict[str, int], ...]) -> Tuple[Any, str]:
    words: Dict[str, str] = {}
    written = config.to_dict()
    _cut_part(written, _enough(config, layers), tables, words)
    for name in ("architectures", "auto_map"):
        if getattr(config, name, None):
            written[name] = getattr(config, name)
    small = type(config).from_dict(written)
    for part in (small, *(one for one in vars(small).values() if hasattr(one, "to_dict"))):
        with contextlib.suppress(Exception):
            part.use_cache = False
    return small, ", ".join(words.values())


def _enough(config: Any, layers: int) -> int:
    """As many of the first layers as show each kind, where the kinds are computed and no list of them can be cut."""
    written = config.to_dict()
    for name in _KINDS:
        kinds = getattr(config, name, None)
        if layers and isinstance(kinds, (list, tuple)) and kinds and name not in written:
            found = 1 + max(list(kinds).index(kind) for kind in kinds)
            return max(layers, found) if found <= _MOST_LAYERS else layers
    return layers


def _cut_part(written: Dict[str, Any], layers: int, tables: Tuple[Dict[str, int], ...], words: Dict[str, str]) -> None:
    count = next((written[name] for name in _LAYERS if isinstance(written.get(name), int)), 0)
    kinds = next((written[name] for name in _KINDS if isinstance(written.get(name), list)), None)
    kept: List[int] = list(range(min(layers, count)))
    if layers and kinds and len(kinds) > layers:
        # The first layer of each kind, in the model's order; of a larger cut the first two, some are tied to another.
        each = 2 if layers > 2 else 1
        kept = [number for number, kind in enumerate(kinds) if kinds[:number].count(kind) < each]
        kept = kept if len(kept) >= layers else sorted({*kept, *range(layers)})[: max(layers, len(kept))]
    for name, size in list(written.items()):
        if isinstance(size, dict) and ("model_type" in size or name.endswith("_config")):
            _cut_part(size, layers, tables, words)
        elif isinstance(size, dict) and name in ("rope_parameters", "rope_scaling"):
            written[name] = _plain_rope(size) if len(tables) > 2 else size
        elif isinstance(size, int) and not isinstance(size, bool):
            most = next((table[name] for table in tables if name in table), None)
            if name in _LAYERS and layers:
                most = len(kept) if size == count and kept else layers
            if most is not None and (size > most or name in _EXACT):
                written[name] = most
                words.setdefault(name, "{} {} instead of {}".format(name, most, size))
            elif name.endswith("token_id") and size >= VOCABULARY:
                written[name] = 0 if name.startswith("pad") else 1
    for name, value in list(written.items()) if kept and count > len(kept) else ():
        if isinstance(value, list) and len(value) == count:
            most = next((table[name] for table in tables if name in table), None)
            ones = [value[number] for number in kept]
            written[name] = [min(one, most) if most and isinstance(one, int) else one for one in ones]
        elif (
            isinstance(value, dict) and value and all(str(key).isdigit() for key in value)
        ):  # some layers' own settings
            own = {int(key): one for key, one in value.items()}
            for one in own.values():
                if isinstance(one, dict):
                    _cut_part(one, layers, tables, words)
            written[name] = {new: own[old] for new, old in enumerate(kept) if old in own}


def _plain_rope(given: Dict[str, Any]) -> Dict[str, Any]:
    """Without scaling, whose factors are as many as the head dimension that was cut."""
    if any(isinstance(value, dict) for value in given.values()):  # one for each kind of layer
        return {name: _plain_rope(value) if isinstance(value, dict) else value for name, value in given.items()}
    kept: Dict[str, Any] = {name: given[name] for name in _ROPE if name in given}
    return {"rope_type": "default", **kept} if kept else {}


def _build(transformers: Any, config: Any, attn: Any, trusted: bool) -> Any:
    options = {"attn_implementation": attn} if attn else {}
    if attn:
        config._attn_implementation = attn
    named: List[Any] = [getattr(transformers, name, None) for name in getattr(config, "architectures", None) or ()]
    with contextlib.suppress(AttributeError):
        config.dtype = torch.float32
    for kind in named if not (getattr(config, "auto_map", None) and trusted) else ():
        if hasattr(kind, "_from_config"):
            return kind._from_config(config, **options)
    auto = transformers.AutoModelForCausalLM
    return auto.from_config(config, trust_remote_code=trusted, **options)


def _parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _spread(model: torch.nn.Module) -> None:
    """Weights so large that each token tells in the outputs: with those of a new model attention is nearly even."""
    generator = torch.Generator().manual_seed(0)
    model.float()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                deviation = 0.15 if parameter.dim() == 2 else 0.3
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * deviation)
    language = getattr(model, "set_default_language", None)
    if callable(language) and not inspect.isclass(language):
        with contextlib.suppress(Exception):
            language(next(iter(getattr(model.config, "languages", ["en_XX"]))))
