"""Read the graph backwards: the path of an operand, what gave it its dtype, and where that dtype was born.

Everything is told by call, not by op: devices and torch versions differ in the ops that one call runs, never
in the line that made it. Nothing here knows any library.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional, Tuple

import torch

from . import frames, ops
from .graph import PARAMETER, PROJECTED, Call, Node

_MAX_STEPS = 80


class Unit:
    """One call: what came in from outside it, and which ops ran inside on the way to `node`."""

    __slots__ = ("call", "inputs", "node", "ops")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.call: Call = node.event.call
        self.inputs: List[Node] = []
        self.ops: List[Any] = []
        seen = set()
        # Depth first and from the left, so that operands come in the order in which they were written.
        pending: List[Any] = [node]
        while pending:
            current = pending.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            event = current.event
            if event is None or event.call is not self.call:
                self.inputs.append(current)
                continue
            if not self.ops or self.ops[-1] is not event.op:
                self.ops.append(event.op)
            pending.extend(reversed(event.inputs))
        self.ops.reverse()

    @property
    def name(self) -> str:
        if self.call.func is not None:
            return ops.name_of(self.call.func)
        return ops.op_name(self.node.event.op)

    def data_input(self) -> Optional[Node]:
        """The operand that carries the data: a hidden state before a constant, a big one before a small."""
        best: Optional[Node] = None
        for node in self.inputs:
            if best is None or _rank(node) > _rank(best):
                best = node
        return best

    def is_projection(self) -> bool:
        return any(ops.kind_of(op).product for op in self.ops) and any(node.flags & PARAMETER for node in self.inputs)


def _rank(node: Node) -> Tuple[int, int, int]:
    return (1 if node.flags & PROJECTED else 0, 0 if node.flags & PARAMETER else 1, node.numel)


def _short_name(name: str) -> str:
    return name.replace("torch.nn.functional.", "F.").replace("torch.Tensor.", "Tensor.")


def label(node: Node) -> Dict[str, Any]:
    """An operand in a few words: its dtype, and its name if it has one."""
    found: Dict[str, Any] = {"dtype": ops.short(node.dtype), "name": None, "kind": "computed"}
    if node.leaf is not None:
        found["kind"] = node.leaf.kind
        found["name"] = node.leaf.name or None
    elif node.event is not None and not node.event.inputs:
        found["kind"] = "constant"
    elif node.flags & PARAMETER:
        found["kind"] = "computed from parameters"
        found["name"] = ", ".join(sorted({leaf["name"] for leaf in _leaves(node) if leaf["name"]})) or None
    return found


def _leaves(node: Node, limit: int = 8) -> List[Dict[str, Any]]:
    found: List[Dict[str, Any]] = []
    seen = set()
    pending = [node]
    while pending and len(found) < limit:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if current.leaf is not None:
            found.append({"kind": current.leaf.kind, "name": current.leaf.name, "owner": current.leaf.owner})
        elif current.event is not None:
            pending.extend(current.event.inputs)
    return found


def step(unit: Unit) -> Dict[str, Any]:
    data = unit.data_input()
    found = frames.described(unit.call.site) or {"file": None, "line": None, "function": None, "source": None}
    found.update(
        call=_short_name(unit.name),
        ops=[ops.op_name(op) for op in unit.ops],
        module=unit.call.module,
        dtype_in=ops.short(data.dtype) if data is not None else None,
        dtype_out=ops.short(unit.node.dtype),
        operands=[label(node) for node in unit.inputs],
        changed=data is not None and data.dtype != unit.node.dtype,
    )
    return found


def path_of(node: Node) -> List[Unit]:
    """The calls from the projection (or from where the tensor began) to `node`, in the order they ran."""
    units: List[Unit] = []
    current: Optional[Node] = node
    while current is not None and current.event is not None and len(units) < _MAX_STEPS:
        unit = Unit(current)
        units.append(unit)
        if unit.is_projection():
            break
        current = unit.data_input()
    units.reverse()
    return units


def promotion_of(node: Node) -> Optional[Unit]:
    """The last call on the data path that changed the dtype into the one `node` has; None if none did."""
    for unit in reversed(path_of(node)):
        data = unit.data_input()
        if unit.node.dtype != node.dtype:
            return None
        if data is not None and data.dtype != node.dtype:
            return unit
    return None


def describe_promotion(unit: Unit) -> Dict[str, Any]:
    """What happened in the promoting call, in the terms of the result schema (see __init__)."""
    node = unit.node
    data = unit.data_input()
    narrow = [n for n in unit.inputs if n.dtype != node.dtype]
    wide = [n for n in unit.inputs if n.dtype == node.dtype]
    source = data if data is not None and data.dtype != node.dtype else (narrow[0] if narrow else data)
    found = frames.described(unit.call.site) or {"file": None, "line": None, "function": None, "source": None}
    found.update(
        call=_short_name(unit.name),
        ops=[ops.op_name(op) for op in unit.ops],
        module=unit.call.module,
        dtype_in=ops.short(source.dtype) if source is not None else None,
        dtype_out=ops.short(node.dtype),
        operands=[label(n) for n in unit.inputs],
        autocast=unit.call.autocast,
    )
    if not isinstance(unit.call.func, str) and unit.call.func is not None and ops.is_cast(unit.call.func):
        found["kind"] = "explicit cast"
        found["born"] = [_born_here(unit, "explicit cast")]
    elif wide:
        found["kind"] = "mixed operands"
        births: List[Dict[str, Any]] = []
        for operand in wide:
            births.extend(b for b in born(operand) if b not in births)
        found["born"] = births
    elif unit.call.asked == node.dtype:
        found["kind"] = "dtype argument"
        found["born"] = [_born_here(unit, "dtype argument")]
    elif isinstance(unit.call.func, str):
        found["kind"] = "kernel's own output dtype"
        found["born"] = [_born_here(unit, "kernel")]
    elif unit.call.autocast:
        found["kind"] = "autocast policy"
        found["born"] = [_born_here(unit, "autocast policy")]
    else:
        found["kind"] = "op's own output dtype"
        found["born"] = [_born_here(unit, "op")]
    return found


def _born_here(unit: Unit, kind: str) -> Dict[str, Any]:
    named = [op for op in unit.ops if ops.op_name(op) != "_to_copy"]
    op = ops.op_name(named[0]) if named else None
    if kind == "autocast policy" and _has_autocast_rule(ops.name_of(unit.call.func).rsplit(".", 1)[-1]):
        # The rule is that of the whole function; what it runs inside of itself are other ops, with other rules.
        op = ops.name_of(unit.call.func).rsplit(".", 1)[-1]
    return {
        "kind": kind,
        "name": None,
        "op": op,
        "dtype": ops.short(unit.node.dtype),
        "call": _short_name(unit.name),
        "at": frames.described(unit.call.site),
        "module": unit.call.module,
    }


@functools.lru_cache(maxsize=None)
def _has_autocast_rule(name: str) -> bool:
    """Whether this torch has an autocast rule for the op of that name on CUDA."""
    rules = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    return "aten::" + name in rules


def born(node: Node, limit: int = 6) -> List[Dict[str, Any]]:
    """Where a tensor's dtype comes from: the parameters, buffers, inputs, constants or casts it began as."""
    found: List[Dict[str, Any]] = []
    seen = set()
    pending = [node]
    while pending and len(found) < limit:
        current = pending.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        if current.event is None:
            leaf = current.leaf
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
        unit = Unit(current)
        same = [n for n in unit.inputs if n.dtype == current.dtype]
        if same:
            # The weight before the bias: what has a name first, and of those the bigger.
            pending.extend(sorted(same, key=lambda n: (n.leaf is None, -n.numel)))
        elif unit.inputs:
            _add(found, describe_promotion(unit)["born"][0])
        else:
            _add(found, _born_here(unit, "constant"))
    # Positions and the like start as integers, whose dtype no one chose; what has a name is what to look at.
    return sorted(found, key=lambda birth: birth["kind"] == "constant")


def _add(found: List[Dict[str, Any]], birth: Dict[str, Any]) -> None:
    if birth not in found:
        found.append(birth)


def heal_key(unit: Unit) -> Optional[Tuple[Tuple[str, int, str, str], torch.dtype]]:
    """How a counterfactual run recognises this call again, and what to cast its results back to."""
    if unit.call.site is None or unit.call.func is None:
        return None
    narrow = [n for n in unit.inputs if n.dtype != unit.node.dtype]
    data = unit.data_input()
    source = data if data is not None and data.dtype != unit.node.dtype else (narrow[0] if narrow else None)
    if source is None:
        return None
    filename, line, function = unit.call.site
    return (filename, line, function, ops.name_of(unit.call.func)), source.dtype
