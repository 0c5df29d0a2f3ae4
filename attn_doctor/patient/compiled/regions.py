"""The attention regions of a model: modules that mix tokens, and what they are called with."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import torch

from ..semantics import mixers

if TYPE_CHECKING:
    from ..semantics.subject import Subject

Arguments = Tuple[Tuple[Any, ...], Dict[str, Any]]
_HEADS = ("num_heads", "num_attention_heads", "n_head", "n_heads", "heads", "nheads", "num_key_value_heads")


class Region:
    """One module with the arguments of its first call, for each layout in which the model was called."""

    def __init__(self, path: str, module: torch.nn.Module, layer: Optional[int]) -> None:
        self.path = path
        self.module = module
        self.layer = layer
        self.same: List[str] = []
        self.calls: List[Tuple[str, Arguments]] = []


def find(subject: Subject) -> List[Region]:
    """One region for each class and way to be called; a model that mixes tokens in no module is one region."""
    assert subject.module is not None
    named = dict(subject.module.named_modules())
    tokens = subject.words(2, subject.length)
    found = mixers.mixers(subject, tokens[:1] if subject.is_transformers else tokens)
    paths = [(one["module"], one["layer"]) for one in found] or [("", None)]
    regions: Dict[Tuple[Any, ...], Region] = {}
    for path, layer in paths:
        taken = _captured(subject, named[path], tokens)
        if taken is None:
            continue
        key = (type(named[path]), _form(taken), _settings(named[path]))
        if key in regions:
            regions[key].same.append(path)
            continue
        region = regions[key] = Region(path, named[path], layer)
        region.calls.append(("as given", taken))
        region.calls.append(("other strides", _laid_out(taken)))
        for name, other in _smaller(subject, named[path], tokens):
            again = _captured(subject, named[path], other)
            if again is not None and all(_form(again) != _form(call) for _, call in region.calls):
                region.calls.append((name, again))
    return list(regions.values())


def _smaller(subject: Subject, module: torch.nn.Module, tokens: torch.Tensor) -> List[Tuple[str, torch.Tensor]]:
    """Fewer rows and tokens: where sizes agree, a pattern can match what it must not."""
    found = [("one row", tokens[:1])]
    heads = sorted(
        {
            int(getattr(one, name))
            for one in (*module.modules(), subject.config)
            for name in _HEADS
            if isinstance(getattr(one, name, None), int)
        }
    )
    for number in heads[-2:]:
        if 1 < number < int(tokens.shape[1]):
            found.append(("one row, as many tokens as heads ({})".format(number), tokens[:1, :number]))
    return found


def _captured(subject: Subject, module: torch.nn.Module, tokens: torch.Tensor) -> Optional[Arguments]:
    taken: List[Arguments] = []

    def before(_: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
        if not taken:
            taken.append((map_tensors(args, _own), map_tensors(kwargs, _own)))

    handle = module.register_forward_pre_hook(before, with_kwargs=True)
    try:
        with torch.no_grad():
            subject.call(tokens)
    except Exception:  # noqa: BLE001
        return None  # it takes no such length
    finally:
        handle.remove()
    return taken[0] if taken else None


def map_tensors(value: Any, change: Any) -> Any:
    """The same containers with each tensor changed; other values stay, caches are copied."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        made = [map_tensors(one, change) for one in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if isinstance(value, dict):
        return {name: map_tensors(one, change) for name, one in value.items()}
    return value if isinstance(value, (int, float, str, bool, type(None), torch.nn.Module)) else copy.copy(value)


def _own(tensor: torch.Tensor) -> torch.Tensor:
    found = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    try:
        return found.copy_(tensor.detach())
    except RuntimeError:  # expanded: several of its elements share a place
        return tensor.detach().clone()


def _laid_out(taken: Arguments) -> Arguments:
    """The same values with rows and tokens exchanged in memory, as a transposed view has them."""

    def other(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point() or tensor.dim() < 3:
            return tensor.clone()
        return tensor.transpose(0, 1).contiguous().transpose(0, 1)

    return map_tensors(taken[0], other), map_tensors(taken[1], other)


def _form(taken: Arguments) -> Tuple[Any, ...]:
    form: List[Any] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        form.append((tuple(tensor.shape), tensor.stride(), tensor.dtype))
        return tensor

    map_tensors(taken[0], note)
    map_tensors(taken[1], note)
    return (*form, *(name for name, one in sorted(taken[1].items()) if one is None))


def _settings(module: torch.nn.Module) -> Tuple[Any, ...]:
    """What tells modules of one class apart: numbers and switches, without the number of the layer."""
    plain = (int, float, bool, str)
    own = vars(module).items()
    return tuple(sorted((k, str(v)) for k, v in own if isinstance(v, plain) and "layer" not in k and "idx" not in k))
