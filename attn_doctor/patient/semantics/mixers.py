"""The modules that mix tokens, each by itself: which token of its input moves which of its output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Tuple

import torch

from .compare import REACHES
from .culprit import culprits
from .rows import at, put_at

if TYPE_CHECKING:
    from .subject import Subject


def mixers(subject: Subject, tokens: torch.Tensor) -> List[Dict[str, Any]]:
    """The modules in which the first or the last token moves another one, in the order of their calls."""
    if subject.module is None:
        return []
    length = int(tokens.shape[1])
    found: Dict[str, Dict[str, Any]] = {}
    for change, still in ((slice(0, 1), slice(1, length)), (slice(length - 1, length), slice(0, length - 1))):
        other = subject.changed(tokens, change)
        new, _ = culprits(
            subject.module,
            lambda: subject.call(tokens),
            lambda other=other: subject.call(other),  # type: ignore[misc]
            at(still, length),
            put_at(still, length),
            length,
        )
        for one in new:
            found.setdefault(one["module"], one)
    order = [name for name, _ in subject.module.named_modules()]
    return sorted(found.values(), key=lambda one: order.index(one["module"]))


def own_influence(
    subject: Subject, path: str, tokens: torch.Tensor, positions: Optional[Iterable[int]] = None
) -> Optional[torch.Tensor]:
    """Entry [j, i]: noise at token j of that module's input moves token i of its output, in its first call; rows of
    positions that were not asked for are False. None when its input or output has no row for each token."""
    module = subject.module
    assert module is not None
    target = dict(module.named_modules())[path]
    length = int(tokens.shape[1])
    taken: List[torch.Tensor] = []
    state: Dict[str, Optional[int]] = {"at": None}

    def noisy(one: Any) -> Any:
        place = state["at"]
        whole = isinstance(one, torch.Tensor) and one.is_floating_point() and one.dim() >= 3 and one.shape[1] == length
        if place is None or not whole:
            return one
        noise = torch.randn(one[:, place].shape, generator=torch.Generator().manual_seed(3)).to(one)
        other = one.clone()
        other[:, place] += noise * one.float().std()
        return other

    def before(_: Any, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        if state["at"] is None or taken:
            return None
        if args and isinstance(args[0], torch.Tensor):
            return (noisy(args[0]), *args[1:]), kwargs
        floats = (name for name, one in kwargs.items() if isinstance(one, torch.Tensor) and one.is_floating_point())
        name = next(floats, None)
        return (args, {**kwargs, name: noisy(kwargs[name])}) if name is not None else None

    def after(_: Any, args: Any, kwargs: Any, output: Any) -> None:
        first = output[0] if isinstance(output, (list, tuple)) else output
        taken.append(first.detach().clone())

    handles = [
        target.register_forward_pre_hook(before, with_kwargs=True),
        target.register_forward_hook(after, with_kwargs=True),
    ]
    found = torch.zeros(length, length, dtype=torch.bool)
    try:
        with torch.no_grad():
            subject.call(tokens)
            base = taken[0]
            if base.dim() < 3 or base.shape[1] != length:
                return None
            limit = REACHES * 0.1 * float(base.std())
            for j in range(length) if positions is None else positions:
                taken.clear()
                state["at"] = j
                subject.call(tokens)
                found[j] = (taken[0] - base).abs().flatten(2).amax(-1).amax(0).cpu() > limit
    finally:
        for handle in handles:
            handle.remove()
    return found
