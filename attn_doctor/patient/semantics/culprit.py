"""The module, and in it the line, where something reaches tokens that it must not reach.

Two runs are compared: in every module's output, rows that must be equal are held against each other. The culprit is the
innermost module whose inputs agree in these rows and whose output does not; its rows are then replaced by those of the
first run, and the search goes on, so that each guilty layer is found and none that only passes it on.
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from ..trace.record import frames
from .compare import REACHES, difference
from .rows import at
from .watched_ops import WatchedOps, own_site

if TYPE_CHECKING:
    from .watched_ops import Call

_MOST = 6

Rows = Callable[[torch.Tensor], Optional[torch.Tensor]]
"""The rows of a tensor that must be equal in both runs; None for a tensor that has no row for each token."""


class Seen:
    """One module's call: its inputs and output, and the masks among its arguments."""

    __slots__ = ("inputs", "masks", "output")

    def __init__(self, inputs: List[torch.Tensor], masks: Dict[str, Any]) -> None:
        self.inputs = inputs
        self.masks = masks
        self.output: Optional[torch.Tensor] = None


Key = Tuple[str, int]
"""A module's path, and which call of it."""


class Run:
    """One run of the model with every module's inputs and outputs; `mend` replaces rows of outputs."""

    def __init__(
        self, module: torch.nn.Module, mend: Optional[Dict[Key, torch.Tensor]] = None, put: Any = None
    ) -> None:
        self.module = module
        self.seen: Dict[Key, Seen] = {}
        self.order: List[Key] = []
        self.mend = mend or {}
        self.put = put
        self.inner: Optional[Tuple[Key, WatchedOps]] = None
        self._counts: Dict[str, int] = {}
        self._open: List[Key] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[Run]:
        handles = []
        for name, one in self.module.named_modules():
            if isinstance(one, (torch.nn.ModuleList, torch.nn.ModuleDict)):
                continue
            handles.append(one.register_forward_pre_hook(self._before(name), with_kwargs=True))
            handles.append(one.register_forward_hook(self._after(name), with_kwargs=True))
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()

    def _before(self, name: str) -> Callable[..., None]:
        def hook(module: torch.nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> None:
            key = (name, self._counts.get(name, 0))
            self._counts[name] = key[1] + 1
            self._open.append(key)
            tensors = [one for one in (*args, *kwargs.values()) if isinstance(one, torch.Tensor)]
            inputs = [one.detach().clone() for one in tensors if one.is_floating_point() or one.dim() == 2]
            masks = {which: value for which, value in kwargs.items() if "mask" in which}
            self.seen[key] = Seen(inputs, masks)
            self.order.append(key)
            if self.inner is not None and self.inner[0] == key:
                self.inner[1].on = True

        return hook

    def _after(self, name: str) -> Callable[..., Any]:
        def hook(module: torch.nn.Module, args: Tuple[Any, ...], kwargs: Dict[str, Any], output: Any) -> Any:
            key = self._open.pop() if self._open else (name, 0)
            if self.inner is not None and self.inner[0] == key:
                self.inner[1].on = False
            first = output if isinstance(output, torch.Tensor) else None
            if first is None and isinstance(output, (list, tuple)) and output and isinstance(output[0], torch.Tensor):
                first = output[0]
            if first is None or not first.is_floating_point():
                return None
            good = self.mend.get(key)
            if good is not None and self.put is not None:
                first = self.put(first, good)
                self.seen[key].output = first.detach().clone()
                return first if isinstance(output, torch.Tensor) else type(output)((first, *output[1:]))
            self.seen[key].output = first.detach().clone()
            return None

        return hook


def leaking(base: Run, other: Run, rows: Rows, limit: float = REACHES) -> List[Key]:
    """The modules that made rows differ whose inputs agreed, innermost first; in the order of their calls."""
    found: List[Key] = []
    for key in base.order:
        one, two = base.seen[key], other.seen.get(key)
        if two is None or one.output is None or two.output is None or one.output.shape != two.output.shape:
            continue
        if _differs(one.output, two.output, rows, limit) and not any(
            _differs(a, b, rows, limit) for a, b in zip(one.inputs, two.inputs)
        ):
            found.append(key)
    # A parent agrees with its guilty child: only the innermost are kept, and of those the first.
    return [key for key in found if not any(_within(inner, key) for inner in found if inner != key)]


def _within(inner: Key, outer: Key) -> bool:
    return inner[0] != outer[0] and (outer[0] == "" or inner[0].startswith(outer[0] + "."))


def _differs(one: torch.Tensor, other: torch.Tensor, rows: Rows, limit: float) -> bool:
    if one.shape != other.shape:
        return False
    a, b = rows(one), rows(other)
    if a is None or b is None or a.numel() == 0:
        return False
    if not one.is_floating_point():
        return bool((a != b).any())
    return not difference(a, b) < limit


def culprits(
    module: torch.nn.Module,
    base_call: Callable[[], object],
    other_call: Callable[[], object],
    rows: Rows,
    put: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    length: int,
) -> Tuple[List[Dict[str, Any]], Optional[Dict[str, Any]]]:
    """The guilty modules with their lines, and the mask that the first of them was given."""
    base = Run(module)
    with torch.no_grad(), base.watching():
        base_call()
    found: List[Dict[str, Any]] = []
    mask: Optional[Dict[str, Any]] = None
    mend: Dict[Key, torch.Tensor] = {}
    for _ in range(_MOST):
        other = Run(module, mend, put)
        with torch.no_grad(), other.watching():
            other_call()
        new = [key for key in leaking(base, other, rows) if key not in mend]
        if not new:
            break
        key = new[0]
        output = base.seen[key].output
        assert output is not None
        mend[key] = output
        names = dict(module.named_modules())
        described, given = _lines(module, names[key[0]], key, base_call, other_call, rows, length, mend, put)
        found.append({"module": key[0], "type": type(names[key[0]]).__name__, "layer": layer_of(key[0]), **described})
        if mask is None:
            mask = given
    return found, mask


def where_lengths_part(
    module: torch.nn.Module,
    padded: Callable[[], object],
    alone: Callable[[], object],
    length: int,
    cut: int,
) -> List[Dict[str, Any]]:
    """The first innermost module whose rows from `cut` on were those of the shorter run before it, and not after."""
    runs = []
    for call in (padded, alone):
        run = Run(module)
        with torch.no_grad(), run.watching():
            call()
        runs.append(run)
    whole, short = runs

    def apart(one: Optional[torch.Tensor], other: Optional[torch.Tensor]) -> Optional[bool]:
        if one is None or other is None or one.dim() != other.dim() or not one.is_floating_point():
            return None
        rows = at(slice(cut, None), length)(one)
        return None if rows is None or rows.shape != other.shape else not difference(other, rows) < REACHES

    guilty = []
    for key in whole.order:
        one, two = whole.seen[key], short.seen.get(key)
        if two is None or not apart(one.output, two.output):
            continue
        if not any(apart(a, b) for a, b in zip(one.inputs, two.inputs)):
            guilty.append(key)
    inner = [key for key in guilty if not any(_within(other, key) for other in guilty if other != key)]
    named = dict(module.named_modules())
    found = []
    for name, _ in inner[:1]:
        code = getattr(type(named[name]).forward, "__code__", None)
        site = (code.co_filename, code.co_firstlineno, code.co_name) if code is not None else None
        found.append({"module": name, "type": type(named[name]).__name__, "layer": layer_of(name),
                      "at": frames.described(site), "inside": None})  # fmt: skip
    return found


def _lines(
    module: torch.nn.Module,
    guilty: torch.nn.Module,
    key: Key,
    base_call: Callable[[], object],
    other_call: Callable[[], object],
    rows: Rows,
    length: int,
    mend: Dict[Key, torch.Tensor],
    put: Any,
) -> Tuple[Dict[str, Any], Optional[Dict[str, Any]]]:
    """Where in that module rows first differ, and the mask that it was given."""
    earlier = {one: value for one, value in mend.items() if one != key}
    watched: List[WatchedOps] = []
    seen: Optional[Seen] = None
    for call, mended in ((base_call, None), (other_call, earlier)):
        ops = WatchedOps(length, module)
        run = Run(module, mended, put)
        run.inner = (key, ops)
        with torch.no_grad(), run.watching(), ops:
            call()
        watched.append(ops)
        seen = seen or run.seen.get(key)
    first = _first_that_differs(watched[0].calls, watched[1].calls, rows, length)
    if first is None:
        return {"at": None, "inside": None}, _mask(seen, watched[0], length)
    own = own_site(guilty, first.sites) or (first.sites[0] if first.sites else None)
    described = {"at": frames.described(own), "inside": frames.described(first.sites[0] if first.sites else None)}
    return described, _mask(seen, watched[0], length)


def _first_that_differs(one: List[Call], other: List[Call], rows: Rows, length: int) -> Optional[Call]:
    for a, b in zip(one, other):
        if a.name != b.name or len(a.outputs) != len(b.outputs):
            return None  # the runs part here: nothing after it can be compared
        for left, right in zip(a.outputs, b.outputs):
            scores = sum(size == length for size in left.shape[-2:]) == 2
            if not scores and left.shape == right.shape and _differs(left, right, rows, REACHES):
                return a
    return None


def _mask(seen: Optional[Seen], ops: WatchedOps, length: int) -> Optional[Dict[str, Any]]:
    """The mask that a module was given, in words, and the line that made it."""
    if seen is None or not seen.masks:
        return None
    name, value = next(iter(seen.masks.items()))
    if value is None:
        # The maker decided that none is needed: the last one that the model asked.
        site = ops.makers[-1] if ops.makers else None
        return {"words": "{} is None".format(name), "at": frames.described(site), "allows": None}
    if not isinstance(value, torch.Tensor):
        return {"words": "{} is a {}".format(name, type(value).__name__), "at": None, "allows": None}
    site = _asked_for(ops.made.get(id(value), []), ops)
    allowed = None
    if value.dim() >= 2 and value.shape[-2:] == (length, length):
        flat = value.reshape(-1, length, length)[0]
        allowed = flat if flat.dtype == torch.bool else flat > torch.finfo(torch.float32).min / 2
    words = "{} is {}, {}".format(name, list(value.shape), str(value.dtype).replace("torch.", ""))
    return {"words": words, "at": frames.described(site), "allows": allowed}


def _asked_for(sites: List[frames.Site], ops: WatchedOps) -> Optional[frames.Site]:
    """The line of the model's own file that asked for a mask, else the line that made it."""
    return next((site for site in sites if site[0] in ops.files), sites[0] if sites else None)


def layer_of(path: str) -> Optional[int]:
    """The number in a module's path: 3 for model.layers.3.self_attn."""
    numbers = re.findall(r"(?:^|\.)(\d+)(?:\.|$)", path)
    return int(numbers[0]) if numbers else None
