"""`edit-source`, cast-operand: casts the float32 operand named by a trace to the dtype of the other operand.

Only for a parameter, a buffer or a constant that is written as a name in the expression. A computed operand has its
cause elsewhere, and is cast at the kernel call instead (source.py).
"""

from __future__ import annotations

import ast
import re

from attn_doctor.fix.edits.source import read
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.dtypes import HALVES
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.plans import Splice
from attn_doctor.quick_dataclasses import dataclass

_OPERATORS: dict[str, type[ast.operator]] = {
    "mul": ast.Mult, "add": ast.Add, "sub": ast.Sub, "rsub": ast.Sub, "div": ast.Div, "matmul": ast.MatMult,
}  # fmt: skip
#: Position tables: in half precision neighbouring positions would become equal.
_TABLE = re.compile(r"inv_freq|freqs|cos|sin", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """An operation of a half-precision operand and a float32 operand that has a name."""

    file: str
    line: int
    operator: str
    name: str
    """The last part of the operand's dotted name."""


def meeting(facts: FactSet, promotion: str) -> Meeting:
    """The operation at which a promotion happened. Raises Refused when the trace does not name one."""
    own = f"promotion.{promotion}."

    def text(attribute: str) -> str:
        return facts.text(FactName("promotion", promotion, attribute)) or ""

    place = re.fullmatch(r"(.+):(\d+)", text("place"))
    operator = re.fullmatch(r"(?:aten::|Tensor\.|torch\.)_*([a-z]+?)_*", text("call"))
    operand = re.fullmatch(r"(?:parameter|buffer|constant) ([\w.]+)", text("operand"))
    if text("kind") != "mixed operands" or text("dtype_in") not in HALVES or text("dtype_out") != "float32":
        raise Refused("no float32 operand meets a half one there")
    if place is None or operator is None or operator[1] not in _OPERATORS:
        raise Refused(f"{facts.text(own + 'call') or 'the call'} is none whose operand a program casts")
    if operand is None:
        raise Refused("the wide operand has no name of its own: where it is computed has to be looked at")
    return Meeting(file=place[1], line=int(place[2]), operator=operator[1], name=operand[1].rpartition(".")[2])


def splices(content: bytes, at: Meeting) -> tuple[Splice, ...]:
    """Appends a cast to the operand. Raises Refused unless it occurs there exactly once, next to a name."""
    source = read(content, at.file)
    found = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, _OPERATORS[at.operator]):
            continue
        if not node.lineno <= at.line <= (node.end_lineno or node.lineno):
            continue
        for wide, other in ((node.left, node.right), (node.right, node.left)):
            if _last(wide) == at.name:
                found.append((wide, other))
    if len(found) != 1:
        raise Refused(f"{at.file}:{at.line} holds {at.name} as an operand {len(found)} times, where once was expected")
    wide, other = found[0]
    if not _last(other):
        raise Refused(f"{at.file}:{at.line}: what {at.name} meets has no name, so that its dtype cannot be asked for")
    start, end = source.span(wide)
    return (Splice(start=start, end=end, text=f"{content[start:end].decode()}.to({ast.unparse(other)}.dtype)"),)


def warnings(at: Meeting) -> tuple[str, ...]:
    """Warnings before the operand loses precision."""
    if _TABLE.search(at.name):
        return (f"{at.name} looks like a table of positions: in half precision neighbouring positions become one",)
    return ()


def _last(node: ast.expr) -> str:
    """The last part of a dotted name; empty for any other expression, which might have side effects."""
    inner = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    if not isinstance(inner, ast.Name):
        return ""
    return node.attr if isinstance(node, ast.Attribute) else inner.id
