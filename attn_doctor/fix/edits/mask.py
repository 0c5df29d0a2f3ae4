"""`edit-source`, cast-mask: casts a float32 mask to the query's dtype at the call of SDPA that a trace named.

A mask that is None or boolean in another call on the same line is not cast: as numbers, a boolean mask would silently
mean something else.
"""

from __future__ import annotations

import ast

from attn_doctor.fix.edits.source import Call, call_at, is_name, read
from attn_doctor.fix.refusal import Refused
from attn_doctor.model.dtypes import HALVES
from attn_doctor.model.facts import FactName, FactSet
from attn_doctor.model.plans import Splice

_CALL = "scaled_dot_product_attention"
_PLACE = 3
WARNING = (
    "numbers that the narrower dtype does not hold become -inf; a row of the mask that holds nothing else gives NaN"
)


def call(facts: FactSet, attention: str) -> Call:
    """The call with the wide mask. Raises Refused when the trace names none that may be edited."""

    def text(attribute: str) -> str:
        return facts.text(FactName("attention", attention, attribute)) or ""

    file, _, line = text("place").rpartition(":")
    if text("name").rpartition(".")[2] != _CALL or not line.isdigit():
        raise Refused("the trace names no line that calls scaled_dot_product_attention")
    if text("q_dtype") not in HALVES or text("mask_dtype") != "float32":
        raise Refused("no float32 mask meets a query in half precision there")
    return Call(file=file, line=int(line), name=_CALL, dtypes=(("mask", "float32"),))


def splices(content: bytes, at: Call) -> tuple[Splice, ...]:
    """Adds a cast around the mask. Raises Refused unless mask and query are plain names."""
    source = read(content, at.file)
    node = call_at(source.tree, at)
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        raise Refused("the call unpacks its operands")
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    mask = named.get("attn_mask") or (node.args[_PLACE] if len(node.args) > _PLACE else None)
    query = named.get("query") or (node.args[0] if node.args else None)
    if mask is None:
        raise Refused("the call does not name its mask")
    # Each is read more than once: an expression with side effects would run twice.
    if not is_name(mask) or not is_name(query):
        raise Refused("mask and query have to stand by their names at the call")
    assert query is not None
    start, end = source.span(mask)
    name = content[start:end].decode()
    cast = f"{name}.to({ast.unparse(query)}.dtype)"
    return (
        Splice(start=start, end=end, text=f"({cast} if {name} is not None and {name}.is_floating_point() else {name})"),
    )
