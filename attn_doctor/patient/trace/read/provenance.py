"""Reads the graph backwards: the path of an operand, the call that set its dtype, and the origin of that dtype.

Works on calls, not operations: devices and torch versions differ in the operations of one call, but not in the line
that made it. Independent of any library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional, Tuple

import torch

from ..record import frames, ops
from ..record.graph import NARROWED, PARAMETER, PROJECTED, Call, Event, Leaf, Node
from . import autocast_policy

if TYPE_CHECKING:
    from ..answer import Birth, Change, Label, Place, Step

_MAX_STEPS = 80


class Unit:
    """One call: its inputs from outside, and the operations inside it on the way to `node`."""

    __slots__ = ("call", "event", "inputs", "node", "ops")

    def __init__(self, node: Node, event: Event) -> None:
        """`event` is the one that made `node`."""
        self.node = node
        self.event = event
        self.call: Call = event.call
        self.inputs: List[Node] = []
        self.ops: List[object] = []
        seen = set()
        # Depth first and from the left, so that operands are in source order.
        pending: List[Node] = [node]
        while pending:
            current = pending.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            inner = current.event
            if inner is None or inner.call is not self.call:
                self.inputs.append(current)
                continue
            if not self.ops or self.ops[-1] is not inner.op:
                self.ops.append(inner.op)
            # What a buffer holds, in place of the tensor whose dtype it may have borrowed.
            pending.extend(reversed(inner.inputs) if current.filled_from is None else (current.filled_from,))
        self.ops.reverse()

    @property
    def name(self) -> str:
        if self.call.func is not None:
            return ops.name_of(self.call.func)
        return ops.op_name(self.event.op)

    def data_input(self) -> Optional[Node]:
        """The operand with the data: a hidden state rather than a constant, a large one rather than a small one.

        When hidden states are concatenated and one that was widened earlier widens the result, it is that one."""
        inputs = [node for node in self.inputs if self._widens(node)] if self._joins() else []
        best: Optional[Node] = None
        for node in inputs or self.inputs:
            if best is None or _rank(node) > _rank(best):
                best = node
        return best

    def _joins(self) -> bool:
        return any(ops.kind_of(op).join for op in self.ops)

    def _widens(self, node: Node) -> bool:
        return node.real == self.node.real and bool(node.flags & NARROWED)

    def is_projection(self) -> bool:
        return any(ops.kind_of(op).product for op in self.ops) and any(node.flags & PARAMETER for node in self.inputs)


def _rank(node: Node) -> Tuple[int, int, int]:
    return (1 if node.flags & PROJECTED else 0, 0 if node.flags & PARAMETER else 1, node.numel)


def short_name(name: str) -> str:
    return name.replace("torch.nn.functional.", "F.").replace("torch.Tensor.", "Tensor.")


def label(node: Node) -> Label:
    """A short description of an operand: its dtype, and its name if it has one."""
    found: Label = {"dtype": ops.short(node.dtype), "name": None, "kind": "computed"}
    if node.leaf is not None:
        found["kind"] = node.leaf.kind
        found["name"] = node.leaf.name or None
    elif node.event is not None and not node.event.inputs:
        found["kind"] = "constant"
    elif node.flags & PARAMETER:
        found["kind"] = "computed from parameters"
        found["name"] = ", ".join(sorted({leaf.name for leaf in _leaves(node) if leaf.name})) or None
    return found


def _leaves(node: Node, limit: int = 8) -> List[Leaf]:
    found: List[Leaf] = []
    seen = set()
    pending = [node]
    while pending and len(found) < limit:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if current.leaf is not None:
            found.append(current.leaf)
        elif current.event is not None:
            pending.extend(current.event.inputs)
    return found


_NOWHERE: Place = {"file": None, "line": None, "function": None, "source": None}


def step(unit: Unit) -> Step:
    data = unit.data_input()
    return {
        **(frames.described(unit.call.site) or _NOWHERE),
        "call": short_name(unit.name),
        "ops": [ops.op_name(op) for op in unit.ops],
        "module": unit.call.module,
        "dtype_in": ops.short(data.dtype) if data is not None else None,
        "dtype_out": ops.short(unit.node.dtype),
        "operands": [label(node) for node in unit.inputs],
        "changed": data is not None and data.real != unit.node.real,
    }


def path_of(node: Node) -> List[Unit]:
    """The calls from the projection (or the tensor's origin) to `node`, in the order in which they ran."""
    units: List[Unit] = []
    current: Optional[Node] = node
    while current is not None and current.event is not None and len(units) < _MAX_STEPS:
        unit = Unit(current, current.event)
        units.append(unit)
        if unit.is_projection():
            break
        current = unit.data_input()
    units.reverse()
    return units


def promotion_of(node: Node) -> Optional[Unit]:
    """The last call on the data path that changed the dtype to that of `node`; None if none did."""
    for unit in reversed(path_of(node)):
        data = unit.data_input()
        if unit.node.real != node.real:
            return None
        if data is not None and data.real != node.real:
            return unit
    return None


def way_back_of(node: Node, promotion: Unit) -> Optional[Unit]:
    """The call where the result of `promotion` should have been cast back, if that is not the promotion itself.

    Complex numbers have no usable half precision: a tensor widened to become complex is cast back where it is real
    again. An explicit cast is undone in the function that made it, at the last of its calls on the path.
    """
    path = path_of(node)
    after = path[next((i for i, unit in enumerate(path) if unit.node is promotion.node), len(path)) + 1 :]
    real_again = [unit for unit in after if unit.node.dtype not in ops.COMPLEX and _from_complex(unit)]
    if real_again:
        return real_again[-1]
    if not _is_cast(promotion) or promotion.call.site is None:
        return None
    here = (promotion.call.site[0], promotion.call.site[2])
    own = [unit for unit in after if unit.call.site is not None and (unit.call.site[0], unit.call.site[2]) == here]
    return own[-1] if own else None


def _from_complex(unit: Unit) -> bool:
    data = unit.data_input()
    return data is not None and data.dtype in ops.COMPLEX


def _is_cast(unit: Unit) -> bool:
    func = unit.call.func
    return func is not None and not isinstance(func, str) and ops.is_cast(func)


def describe_promotion(unit: Unit) -> Change:
    """Description of the promoting call, in the terms of the result schema (see ../__init__)."""
    node = unit.node
    data = unit.data_input()
    narrow = [n for n in unit.inputs if n.real != node.real]
    wide = [n for n in unit.inputs if n.real == node.real]
    source = data if data is not None and data.real != node.real else (narrow[0] if narrow else data)
    kind, births = _kind_and_birth(unit, wide)
    return {
        **(frames.described(unit.call.site) or _NOWHERE),
        "call": short_name(unit.name),
        "ops": [ops.op_name(op) for op in unit.ops],
        "module": unit.call.module,
        "dtype_in": ops.short(source.dtype) if source is not None else None,
        "dtype_out": ops.short(node.dtype),
        "operands": [label(n) for n in unit.inputs],
        "autocast": unit.call.autocast,
        "kind": kind,
        "born": births,
    }


def _kind_and_birth(unit: Unit, wide: List[Node]) -> Tuple[str, List[Birth]]:
    """Why a call changed a dtype, and the origin of the new one; `wide`: its operands of that dtype."""
    node = unit.node
    if _is_cast(unit):
        like = unit.call.like
        borrowed = born(like) if like is not None and like.real == node.real else []
        return "explicit cast", borrowed or [_born_here(unit, "explicit cast")]
    if node.filled_from is not None:
        return "buffer's own dtype", [_born_here(unit, "constant")]
    if unit.call.asked == node.dtype:
        return "dtype argument", [_born_here(unit, "dtype argument")]
    if _rule(unit) is not None:
        # Before the operands: autocast casts all of them, so a half-precision weight would change nothing.
        return "autocast policy", [_born_here(unit, "autocast policy")]
    if wide:
        births: List[Birth] = []
        for operand in wide:
            births.extend(b for b in born(operand) if b not in births)
        return "mixed operands", births
    if isinstance(unit.call.func, str):
        return "kernel's own output dtype", [_born_here(unit, "kernel")]
    if unit.call.autocast and any(ops.op_name(op) == "_to_copy" for op in unit.ops):
        # Cast by a rule that is on no list.
        return "autocast policy", [_born_here(unit, "autocast policy")]
    return "op's own output dtype", [_born_here(unit, "op")]


def _born_here(unit: Unit, kind: str) -> Birth:
    named = [op for op in unit.ops if ops.op_name(op) != "_to_copy"]
    op = ops.op_name(named[0]) if named else None
    if kind == "autocast policy":
        op = _rule(unit) or op
    return {
        "kind": kind,
        "name": None,
        "op": op,
        "dtype": ops.short(unit.node.dtype),
        "call": short_name(unit.name),
        "at": frames.described(unit.call.site),
        "module": unit.call.module,
    }


def _rule(unit: Unit) -> Optional[str]:
    """The operation on autocast's float32 lists that decides the dtype of this call's result, if any."""
    if not unit.call.autocast or unit.node.dtype != torch.float32:
        return None
    return autocast_policy.rule_of(unit.call.func, unit.ops)


def born(node: Node, limit: int = 6) -> List[Birth]:
    """The origin of a tensor's dtype: parameters, buffers, inputs, constants or casts."""
    found: List[Birth] = []
    seen = set()
    pending = [node]
    while pending and len(found) < limit:
        current = pending.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        if current.event is None:
            leaf = current.leaf or Leaf("made before the trace")
            _add(
                found,
                {
                    "kind": leaf.kind,
                    "name": leaf.name or None,
                    "op": None,
                    "dtype": ops.short(current.dtype),
                    "call": None,
                    "at": None,
                    "module": leaf.owner,
                },
            )
            continue
        unit = Unit(current, current.event)
        same = [n for n in unit.inputs if n.real == current.real]
        decided = len(same) < len(unit.inputs) and _rule(unit) is not None
        if same and not decided:
            # The weight before the bias: named tensors first, larger ones before smaller ones.
            pending.extend(sorted(same, key=lambda n: (n.leaf is None, -n.numel)))
        elif unit.inputs:
            _add(found, describe_promotion(unit)["born"][0])
        else:
            _add(found, _born_here(unit, "constant"))
    # Positions and the like start as integers, whose dtype was not chosen by anyone; named tensors are more relevant.
    return sorted(found, key=lambda birth: birth["kind"] == "constant")


def _add(found: List[Birth], birth: Birth) -> None:
    if birth not in found:
        found.append(birth)


def heal_key(unit: Unit) -> Optional[Tuple[Tuple[str, int, str, str], torch.dtype]]:
    """The key by which a counterfactual run recognizes this call, and the dtype to cast its results back to."""
    source = narrow_source(unit)
    key = key_of(unit)
    return (key, source.real) if source is not None and key is not None else None


def narrow_source(unit: Unit) -> Optional[Node]:
    """The operand of a promoting call with the narrower dtype; the data, if it is that."""
    data = unit.data_input()
    if data is not None and data.real != unit.node.real:
        return data
    return next((n for n in unit.inputs if n.real != unit.node.real), None)


def key_of(unit: Unit) -> Optional[Tuple[str, int, str, str]]:
    """File, line, function and torch function of a call; None for one without a source line."""
    if unit.call.site is None or unit.call.func is None:
        return None
    filename, line, function = unit.call.site
    return filename, line, function, ops.name_of(unit.call.func)


def heal_of(node: Node, unit: Unit) -> Optional[Tuple[Tuple[str, int, str, str], torch.dtype]]:
    """The key of the result that a counterfactual run casts back for `unit`, which promoted `node`, and the dtype.

    That is its result or, with complex numbers in between, the first real tensor after them."""
    back = way_back_of(node, unit)
    if back is not None and _from_complex(back):
        key, source = key_of(back), narrow_source(unit)
        return (key, source.real) if source is not None and key is not None else None
    return heal_key(unit) if unit.node.dtype not in ops.COMPLEX else None
