"""Records which call, on which line, gives each tensor its dtype, while a model runs.

Results are not changed, except by a counterfactual run (counterfactual.py) or a simulated GPU (redirect.py).

Elsewhere: seeing calls and operations (modes.py), reading the graph (provenance.py), judging a call
(meet/attention.py).
"""

from __future__ import annotations

import contextlib
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

import torch

from . import backward_pass, frames, modes, ops
from .graph import NARROWED, PARAMETER, PROJECTED, Call, Event, Leaf, Node, Nodes
from .places import NoPlaces, Places

if TYPE_CHECKING:
    from types import FrameType

    from torch._ops import OpOverload

    from ...arguments import Function, Given, Keywords, Positional
    from .frames import Site

Heal = Tuple[str, int, str, str]
"""File, line, function and torch function of the calls whose results a counterfactual run casts back."""


# `torch.tensor([...])` creates its tensor invisibly and passes it to this operation: its operand was made there.
_LIFTS = frozenset({torch.ops.aten.lift_fresh.default})


_BORROWS = frozenset({torch.Tensor.to, torch.Tensor.type_as})


class Failed(NamedTuple):
    """The torch function that raised last."""

    error: BaseException
    func: str
    site: Optional[frames.Site]
    module: Optional[str]
    operands: List[Tuple[Node, Tuple[Any, ...]]]
    """Each with its shape."""


class Recorder:
    """One recording. `with recorder: model(x)`; may be entered once.

    `calls` are the attention calls, in order and folded (meet/); `on_call` is called for each of them.
    """

    def __init__(self) -> None:
        self.nodes: Nodes[Node] = Nodes()
        self.names: Dict[int, Tuple[Any, Leaf]] = {}
        """id -> (weak reference, location) of every parameter and buffer of the modules seen."""
        self.module: Optional[str] = None
        self.func: object = None
        self.call: Optional[Call] = None
        self.args: Positional = ()
        self.kwargs: Optional[Given] = None
        self.paused = 0
        self.ops = 0
        self.backward_ops = 0
        self.modules_entered = 0
        self.last: Optional[Call] = None
        self.failed: Optional[Failed] = None
        self.heals: Dict[Heal, torch.dtype] = {}
        self.heal_names: FrozenSet[str] = frozenset()
        self.healed: Dict[Heal, int] = {}
        self.ran: Set[Tuple[str, str]] = set()
        """File and function of the user's lines that called torch (run/slow_paths.py)."""
        self.special: Dict[object, Function] = {}
        """Torch functions with a replacement: attention calls, and functions that name a GPU."""
        self.fix_kwargs: Optional[Callable[[Given], Given]] = None
        self.at_op: Optional[Function] = None
        """Called before each operation that it claims (see meet/sdpa.py)."""
        self.claims: Dict[object, bool] = {}
        self.at_product: Optional[Callable[[Event, Positional, FrameType], None]] = None
        """Called with each product after it is recorded (meet/eager.py)."""
        self.places: Places = NoPlaces()
        self.strict: Optional[Callable[[object, Positional], None]] = None
        self.calls: List[Any] = []
        self.depth = 0
        self.autocast = False
        self.autocast_device = "cuda"
        self._stack: Optional[contextlib.ExitStack] = None

    def __enter__(self) -> Recorder:
        with contextlib.ExitStack() as stack:
            # The function mode is entered first: its calls must still reach the dispatch mode.
            functions = stack.enter_context(modes.Functions(self))
            stack.enter_context(backward_pass.followed(self, functions))
            stack.enter_context(modes.ops_mode(self))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: Any) -> None:
        stack, self._stack = self._stack, None
        if stack is not None:
            stack.__exit__(*exc)

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Operations in this context are not recorded."""
        self.paused += 1
        try:
            yield
        finally:
            self.paused -= 1

    def autocast_on(self) -> bool:
        """Only valid above the dispatcher: below it, autocast has switched itself off for the operation it is
        casting.
        """
        return bool(modes.is_autocast_enabled(self.autocast_device))

    def node(self, tensor: torch.Tensor) -> Node:
        """The node of a tensor; a new tensor is a leaf."""
        node = self.nodes.by_id.get(id(tensor))
        # `p.data = p.data.half()` changes the dtype under the same id.
        if node is None or node.dtype is not tensor.dtype:
            node = self._leaf(tensor)
            self.nodes.set(tensor, node)
        return node

    def _leaf(self, tensor: torch.Tensor) -> Node:
        named = self.names.get(id(tensor))
        if named is not None and named[0]() is tensor:
            leaf = named[1]
            flags = PARAMETER if leaf.kind == "parameter" else 0
        elif isinstance(tensor, torch.nn.Parameter):
            leaf, flags = Leaf("parameter", "", ""), PARAMETER
        else:
            leaf, flags = Leaf("made before the trace"), 0
        return Node(tensor.dtype, tensor.numel(), None, flags, leaf)

    def current_call(self, frame: FrameType) -> Call:
        call = self.call
        if call is None:
            kwargs = self.kwargs
            asked = kwargs.get("dtype") if kwargs else None
            site = frames.site_of(frame)
            if site is not None:
                self.ran.add((site[0], site[2]))
            call = Call(self.func, site, self.module, self.autocast, asked)
            if self.func in _BORROWS and len(self.args) > 1 and isinstance(self.args[1], torch.Tensor):
                call.like = self.node(self.args[1])
            if self.func is not None:
                # Operations outside any recorded call (autograd's) share no line: each gets its own.
                self.call = call
        self.last = call
        return call

    def record(self, op: OpOverload, args: Positional, kwargs: Optional[Keywords], out: Any, frame: FrameType) -> None:
        self.ops += 1
        floats = ops.TRACKED
        by_id = self.nodes.by_id
        inputs: List[Node] = []
        for values in (args, kwargs.values()) if kwargs else (args,):
            for value in values:
                if isinstance(value, torch.Tensor):
                    dtype = value.dtype
                    if dtype in floats:
                        node = by_id.get(id(value))
                        if node is None or node.dtype is not dtype:
                            node = self.node(value)
                        inputs.append(node)
                elif type(value) in (list, tuple):
                    for item in value:
                        if isinstance(item, torch.Tensor) and item.dtype in floats:
                            inputs.append(self.node(item))
        outs = out if type(out) in (list, tuple) else (out,)
        event: Optional[Event] = None
        flags = 0
        for item in outs:
            if not isinstance(item, torch.Tensor) or item.dtype not in floats:
                continue
            dtype = item.dtype
            known = by_id.get(id(item))
            kind = ops.kind_of(op)
            if known is not None and known.dtype is dtype and kind.in_place:
                # Writing in place changes no dtype, which was set when the tensor was made. Only its content is new.
                for node in inputs:
                    if node.flags & PROJECTED and node is not known:
                        _carry(known, node)
                continue
            if event is None:
                if op in _LIFTS:
                    inputs = []
                event = Event(op, self.current_call(frame), tuple(inputs))
                flags = _flags(kind, inputs)
            self.nodes.set(item, Node(dtype, item.numel(), event, flags))
        if event is not None and self.at_product is not None and ops.kind_of(op).product:
            self.at_product(event, args, frame)

    def link(self, out: object, inputs: Iterable[object], what: str, site: Optional[Site] = None) -> None:
        """Records that `out` (a tensor or several) was computed from `inputs` by something that no operation shows."""
        nodes = tuple(self.node(t) for t in inputs if isinstance(t, torch.Tensor) and t.dtype in ops.TRACKED)
        if not nodes:
            return
        call = Call(what, site, self.module, self.autocast_on(), None)
        flags = 0
        for node in nodes:
            flags |= node.flags & PROJECTED
        event = Event(what, call, nodes)
        for item in out if isinstance(out, (list, tuple)) else (out,):
            if isinstance(item, torch.Tensor) and item.dtype in ops.TRACKED:
                known = self.nodes.get(item)
                if known is None or known not in nodes:
                    self.nodes.set(item, Node(item.dtype, item.numel(), event, flags))

    def heal(self, func: object, out: object, frame: FrameType) -> object:
        """`out`, cast back if this call is one that a counterfactual run fixes."""
        name = ops.name_of(func)
        if name not in self.heal_names:
            return out
        site = frames.site_of(frame)
        if site is None:
            return out
        key = (site[0], site[1], site[2], name)
        dtype = self.heals.get(key)
        if dtype is None:
            return out
        self.healed[key] = self.healed.get(key, 0) + 1
        return cast_floats(out, dtype)

    def note_failure(
        self, func: object, args: Positional, kwargs: Optional[Keywords], error: BaseException, frame: FrameType
    ) -> None:
        if self.failed is not None and self.failed.error is error:
            return
        tensors = [a for a in list(args) + list((kwargs or {}).values()) if isinstance(a, torch.Tensor)]
        operands = [(self.node(t), tuple(t.shape)) for t in tensors if t.dtype in ops.TRACKED]
        self.failed = Failed(error, ops.name_of(func), frames.site_of(frame), self.module, operands)


def _carry(node: Node, written: Node) -> None:
    """Records that a hidden state was written into a tensor, and so into the tensor of which it is a view, as into a
    cache.
    """
    was_half = _was_half(written)
    current: Optional[Node] = node
    while current is not None and not current.flags & PROJECTED:
        current.flags |= PROJECTED | NARROWED if was_half else PROJECTED
        event = current.event
        if event is not None and event.inputs and ops.kind_of(event.op).view:
            current = event.inputs[0]
            continue
        allocated = event is not None and (not event.inputs or ops.kind_of(event.op).like)
        if allocated and written.real in ops.HALVES and current.real not in ops.HALVES:
            current.filled_from = written
        return


def cast_floats(out: Any, dtype: torch.dtype) -> object:
    if isinstance(out, torch.Tensor):
        return out.to(dtype) if out.dtype in ops.FLOATS and out.dtype != dtype else out
    if type(out) in (list, tuple):
        return type(out)(cast_floats(item, dtype) for item in out)
    return out


def _was_half(node: Node) -> bool:
    return bool(node.flags & NARROWED) or (bool(node.flags & PROJECTED) and node.real in ops.HALVES)


def _flags(kind: ops.Kind, inputs: List[Node]) -> int:
    if not inputs or kind.like:
        return 0
    parameters = 0
    flags = 0
    for node in inputs:
        flags |= node.flags
        if node.flags & PARAMETER or (kind.product and node.leaf is not None and node.leaf.kind != "input"):
            parameters += 1
    if flags & PROJECTED:
        if kind.product and parameters:
            return PROJECTED  # a new projection begins here
        return PROJECTED | NARROWED if any(_was_half(node) for node in inputs) else PROJECTED
    if parameters == len(inputs):
        # An embedding has one floating-point operand, its table; a hidden state begins there.
        return PROJECTED if kind.product and len(inputs) == 1 else PARAMETER
    return PROJECTED if parameters and kind.product else 0
