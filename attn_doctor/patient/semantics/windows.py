"""How far back each layer that mixes tokens sees, against the window that its config or attribute names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional

import torch

from . import BROKEN, COULD_NOT_LOOK, HOLDS, NOT_APPLICABLE, mixers
from .checks import Check, made

if TYPE_CHECKING:
    from .subject import Subject

_NAMES = ("sliding_window", "window_size", "window", "local_window")


def windows(subject: Subject) -> List[Check]:
    """One check for each layer that sees another number of tokens than is named; else one for all."""
    wanted = _named(subject)
    if not wanted:
        return [made("window", NOT_APPLICABLE, "no sliding window is named by its config or its modules")]
    tokens = subject.words(1, subject.length)
    told = [_window(subject, one, wanted, tokens) for one in mixers.mixers(subject, tokens)]
    found = [one for one in told if one is not None]
    bad = [one for one in found if one["outcome"] != HOLDS]
    return bad or found[:1] or [made("window", COULD_NOT_LOOK, "no layer that mixes tokens was found")]


def _named(subject: Subject) -> Dict[str, int]:
    """Sizes of windows by the path of the module that names them; "" for the config."""
    found: Dict[str, int] = {}
    size = getattr(subject.config, "sliding_window", None)
    if _is_size(size, subject.length):
        found[""] = int(size)  # type: ignore[arg-type]
    if not subject.is_transformers and subject.module is not None:
        for path, one in subject.module.named_modules():
            for name in _NAMES:
                size = getattr(one, name, None)
                if _is_size(size, subject.length):
                    found[path] = int(size)  # type: ignore[arg-type]
    return found


def _is_size(size: object, length: int) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and 1 < size < length


def _window(subject: Subject, mixer: Dict[str, Any], wanted: Dict[str, int], tokens: torch.Tensor) -> Optional[Check]:
    path, layer = mixer["module"], mixer["layer"]
    near = [one for one in wanted if not one or path == one or path.startswith(one + ".") or one.startswith(path + ".")]
    kind = _kind(subject, layer)
    if not near or kind not in (None, "sliding_attention", "full_attention"):
        return None
    size = wanted[max(near, key=len)]
    own = mixers.own_influence(subject, path, tokens)
    if own is None or not bool(own.any()):
        return None
    seen = max(int(i) - int(j) for j, i in own.nonzero()) + 1  # with itself
    where = "layer {}".format(layer) if layer is not None else path or type(subject.module).__name__
    # With sharp weights not every token of a long reach tells: a full layer is wrong only where a window shows.
    cut_off = seen in (size, size + 1) if kind == "full_attention" else seen != size
    # A config may name a window that its class does not use; a module that names one has it.
    unused = kind is None and not max(near, key=len) and seen > size + 1
    if not cut_off or unused:
        return made("window", HOLDS, "{} sees {} tokens, itself among them".format(where, seen))
    said = "all {}".format(subject.length) if kind == "full_attention" else "a window of {}".format(size)
    words = "{} sees {} tokens, itself among them, where {} is named".format(where, seen, said)
    return made("window", BROKEN, words, difference=float(seen - size), whose="model", culprits=[mixer])


def _kind(subject: Subject, layer: Optional[int]) -> Optional[str]:
    kinds = getattr(subject.config, "layer_types", None)
    if isinstance(kinds, (list, tuple)) and layer is not None and layer < len(kinds):
        return str(kinds[layer])
    return None
