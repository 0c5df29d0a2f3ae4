"""A Hugging Face model from its config: the class named in it, without weights, and an input for it.

Uses no network, and no code from the config's folder unless requested.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

import torch

from ..record import ops

if TYPE_CHECKING:
    from types import ModuleType

_AUTO = ("AutoModelForCausalLM", "AutoModel")
"""For a config that names no class, or one that is not in transformers."""


class Unusable(Exception):
    """No model can be made from this config; `kind` is an error kind of the answer."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def load(target: str, trusted: bool) -> Tuple[Any, Any]:
    """(transformers, the config). Raises Unusable."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_OFFLINE"] = "1"
    path = os.path.join(target, "config.json") if os.path.isdir(target) else target
    if not os.path.isfile(path):
        raise Unusable("config not found", "no config.json at {}".format(target))
    try:
        import transformers
    except ImportError as error:
        raise Unusable("library missing", "this interpreter cannot import transformers: {}".format(error)) from error
    try:
        # The folder, if there is one: code next to the config is found from there.
        where = os.path.dirname(os.path.abspath(path)) if os.path.basename(path) == "config.json" else path
        return transformers, transformers.AutoConfig.from_pretrained(where, trust_remote_code=trusted)
    except Exception as error:
        raise Unusable("config not understood", "{}: {}".format(type(error).__name__, error)) from error


def build(transformers: ModuleType, config: Any, dtype: torch.dtype, attn: Optional[str], trusted: bool) -> Any:
    """The model, with parameters as torch creates them. Raises Unusable."""
    with contextlib.suppress(Exception):
        config.use_cache = False
    if attn:
        # When the config's own class is called, transformers reads it from there.
        config._attn_implementation = attn
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with _no_init():
            model = _made(transformers, config, dtype, attn, trusted)
        _fill(model)
        return model
    except Unusable:
        raise
    except Exception as error:
        said = "{}: {}".format(type(error).__name__, str(error).strip())
        refused = _refused(transformers, config, dtype, attn, trusted)
        if refused is None:
            words = "transformers {} does not build it: {}".format(transformers.__version__, said)
            raise Unusable("config not understood", words) from error
        words = "{} of transformers {} cannot be built with {} attention: {}".format(
            refused, transformers.__version__, attn or "the config's own", said
        )
        raise Unusable("library missing" if isinstance(error, ImportError) else ATTENTION_REFUSED, words) from error
    finally:
        torch.set_default_dtype(before)


ATTENTION_REFUSED = "attention refused"
"""Kind of the error when a class does not support the requested attention."""


def _refused(
    transformers: ModuleType, config: Any, dtype: torch.dtype, attn: Optional[str], trusted: bool
) -> Optional[str]:
    """The name of the class, if it can be built without requesting that attention; None if it cannot."""
    asked = attn or getattr(config, "_attn_implementation", None)
    if asked in (None, "eager"):
        return None
    config._attn_implementation = "eager"
    try:
        with _no_init():
            return type(_made(transformers, config, dtype, "eager", trusted)).__name__
    except Exception:
        return None
    finally:
        config._attn_implementation = asked


def _made(transformers: ModuleType, config: object, dtype: torch.dtype, attn: Optional[str], trusted: bool) -> object:
    options: Dict[str, Any] = {"attn_implementation": attn} if attn else {}
    named: List[Any] = [getattr(transformers, name, None) for name in getattr(config, "architectures", None) or ()]
    remote = getattr(config, "auto_map", None) and trusted
    for kind in [one for one in named if hasattr(one, "_from_config")] if not remote else ():
        return _called(kind._from_config, config, dtype, options)
    trouble: Optional[Exception] = None
    for name in _AUTO:
        kind = getattr(transformers, name)
        try:
            return _called(kind.from_config, config, dtype, dict(options, trust_remote_code=trusted))
        except ValueError as error:
            if "Unrecognized configuration class" not in str(error):
                raise
            trouble = error
    raise Unusable("config not understood", str(trouble).splitlines()[0])


_MOST_FILLED, _FILLED_ANYWAY = 1 << 27, 1 << 16
"""Elements of a whole model, and of one parameter of a larger one, that are initialized."""


def _fill(model: Any) -> None:
    """Initializes values as in a new model, when that is quick: random contents of memory may be NaN, for which routers
    and samplers raise."""
    parameters = [p for p in model.parameters() if p.dtype in (*ops.HALVES, torch.float32, torch.float64)]
    all_of_them = sum(parameter.numel() for parameter in parameters) <= _MOST_FILLED
    with torch.no_grad():
        for parameter in parameters:
            if not parameter.is_meta and (all_of_them or parameter.numel() <= _FILLED_ANYWAY):
                parameter.normal_(0.0, 0.02)


def _called(make: Any, config: Any, dtype: torch.dtype, options: Dict[str, Any]) -> object:
    try:
        return make(config, dtype=dtype, **options)
    except TypeError as error:
        if "dtype" not in str(error):
            raise
        return make(config, torch_dtype=dtype, **options)


def inputs(model: Any, batch: int, length: int, device: str) -> Dict[str, Any]:
    """The smallest set of inputs that its forward accepts. Raises Unusable for models with inputs other than text,
    pixels or audio features."""
    config, name = model.config, getattr(model, "main_input_name", "input_ids")
    ids = torch.full((batch, length), _word(config), dtype=torch.long, device=device)
    dtype = next((p.dtype for p in model.parameters() if p.dtype in ops.FLOATS), torch.float32)
    if name == "input_ids":
        found = {"input_ids": ids}
    elif name == "pixel_values":
        vision = getattr(config, "vision_config", config)
        size = getattr(vision, "image_size", 224)
        height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
        shape = (batch, getattr(vision, "num_channels", 3), height, width)
        found = {"pixel_values": torch.zeros(shape, dtype=dtype, device=device)}
    elif name == "input_features" and hasattr(config, "num_mel_bins"):
        frames = (batch, config.num_mel_bins, 2 * getattr(config, "max_source_positions", 1500))
        found = {"input_features": torch.zeros(frames, dtype=dtype, device=device)}
    else:
        words = "{} takes {}, for which no input is made here: trace it by a factory that returns model and inputs"
        raise Unusable("config not understood", words.format(type(model).__name__, name))
    if getattr(config, "is_encoder_decoder", False):
        found["decoder_input_ids"] = ids
    return found


def _word(config: object) -> int:
    """The first token without a special meaning: models build masks from padding, image and end tokens."""
    taken = {
        value
        for part in (config, *_parts(config))
        for name, value in vars(part).items()
        if name.endswith(("token_id", "token_index", "_id"))
        for value in (value if isinstance(value, (list, tuple)) else (value,))
        if isinstance(value, int)
    }
    return next(word for word in range(len(taken) + 1) if word not in taken)


def _parts(config: object) -> List[Any]:
    return [v for k, v in vars(config).items() if k.endswith("_config") and hasattr(v, "to_dict")]


_MOST = {
    2: ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers")
    + ("num_decoder_layers",),
    4: ("num_local_experts", "num_experts", "n_routed_experts"),
    2048: ("vocab_size",),
    512: (
        "intermediate_size",
        "ffn_dim",
        "encoder_ffn_dim",
        "decoder_ffn_dim",
        "d_ff",
        "n_inner",
        "moe_intermediate_size",
    ),
}
"""Sizes that do not affect operands of attention, and their reduced values."""


def shrink(config: object) -> str:
    """Makes the model small enough for real tensors; heads and head dimensions stay. Returns the reductions, in
    words.
    """
    cut: Dict[str, str] = {}
    for part in (config, *_parts(config)):
        for most, names in _MOST.items():
            for name in names:
                # Some names are properties that alias another one of these.
                size = getattr(part, name, None)
                if isinstance(size, int) and not isinstance(size, bool) and size > most:
                    with contextlib.suppress(Exception):
                        setattr(part, name, most)
                        cut.setdefault(name, "{} {} instead of {}".format(name, most, size))
        types = getattr(part, "layer_types", None)
        if isinstance(types, list) and len(types) > 2:
            # One layer of each kind, so that none is left out.
            kinds = list(dict.fromkeys(types))
            part.layer_types = kinds if len(kinds) >= 2 else types[:2]
            part.num_hidden_layers = len(part.layer_types)
        for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
            token = getattr(part, name, None)
            if isinstance(token, int) and token >= 2048:
                setattr(part, name, 0)
    return ", ".join(cut.values())


@contextlib.contextmanager
def _no_init() -> Iterator[None]:
    """Skips random initialization, which takes most of the time of building a large model."""
    found = None
    for where in ("transformers.initialization", "transformers.modeling_utils"):
        with contextlib.suppress(ImportError):
            found = found or getattr(importlib.import_module(where), "no_init_weights", None)
    with found() if found is not None else contextlib.nullcontext():
        yield
